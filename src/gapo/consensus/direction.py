"""How each pair lies to the direction of the others, from sketches.

    u_i = unit(s_i / r),    D_i = sum of u_j over the pairs j of other prompts,    a_i = u_i . D_i / |D_i|

r is the root mean square of each bucket over unit sketches: a model's few huge coordinates would drown the others.
Unit vectors, or a few long gradients would lead; other prompts, since pairs of one prompt share words and annotator.
The sum is not weighted: weights that follow margins favour wrong labels, and lead astray where these are many. Neither
r nor a length changes when a label is flipped. Directions may have been weighed before (`agreement`).
"""

from __future__ import annotations

import torch
from torch import Tensor

NOWHERE = 1e-6  # rounding leaves as much of unit vectors that cancel
ROWS_AT_ONCE = 1024


def units(sketches: Tensor) -> Tensor:
    """Rows of length 1; a pair without a gradient stays 0."""
    length = sketches.norm(dim=1, keepdim=True)
    return torch.where(length > 0, sketches / length, torch.zeros_like(sketches))


def evened(rows: Tensor) -> Tensor:
    """Unit rows whose buckets are all of one size over these pairs."""
    size = rows.square().mean(0).sqrt()
    return units(torch.where(size > 0, rows / size, torch.zeros_like(rows)))


def along_others(rows: Tensor, prompts: Tensor, leaders: Tensor | None = None) -> Tensor:
    """a_i of these unit rows, in float64; `leaders` marks the rows that D is made of, all if not given."""
    leading = rows if leaders is None else rows * leaders.to(rows)[:, None]
    names, prompt = torch.unique(prompts, return_inverse=True)
    own = torch.zeros(len(names), rows.shape[1], dtype=torch.float64).index_add_(0, prompt, leading.double())
    total = own.sum(0)  # of the same sums that are left out, so that one prompt alone leaves nothing
    parts = torch.arange(len(rows)).split(ROWS_AT_ONCE)
    return torch.cat([along(rows[part], total, own[prompt[part]]) for part in parts])


def along(rows: Tensor, total: Tensor, left_out: Tensor | None = None) -> Tensor:
    """u_i . D_i / |D_i| with D_i = total - left_out_i, in float64; 0 where that leads nowhere."""
    directions = total.double().expand(len(rows), -1) - (left_out.double() if left_out is not None else 0)
    length = directions.norm(dim=1)
    cosines = (rows.double() * directions).sum(1) / length.clamp_min(NOWHERE)
    return torch.where(length > NOWHERE, cosines, torch.zeros_like(cosines))
