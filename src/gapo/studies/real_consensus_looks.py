"""What a real model can tell of wrong labels before it is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapo.consensus.peers import SUBSET, Groups
from gapo.studies.consensus_looks import SIZES, areas_by_size
from gapo.studies.consensus_tables import NOISY
from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun

if TYPE_CHECKING:
    from torch import Tensor

SHOWN = 400  # pairs of each set that the start model is looked at with
GRADIENTS = ("top", "full")


def told_by_the_start_model(run: StoredRun) -> Rows:
    """Areas by how many pairs lead, by what is looked at, and for disputed pairs where judges are known."""
    import numpy as np

    from gapo.consensus.judging import judged, sketches_of
    from gapo.consensus.scope import AGREED
    from gapo.diagnostics.intervals import bootstrap
    from gapo.diagnostics.ranking import area_under_roc
    from gapo.pairs.judges_wheel import AGREE, DISAGREE
    from gapo.studies.probes import probed
    from gapo.training.dataset import prompt_numbers

    data, seed = probed(run), int(run.recipe["train"]["seed"])
    prompts = prompt_numbers(data.pairs)
    subsets = np.array(subsets_of(run, [pair.id for pair in data.pairs]))
    known = np.isin(subsets, (AGREE, DISAGREE))
    rows: Rows = []
    train = run.recipe["train"]
    said, lead, within = (train.get(f"consensus_{key}") for key in ("scope", "lead", "within"))
    lead = lead or AGREED
    for scope in GRADIENTS if said is None else (said,):
        sketches = sketches_of(data.start, data.pairs, data.pad_id, scope=scope)
        if within is not None:
            groups = [name or None for name in subsets] if within == SUBSET else None
            rows += [{**row, "scope": scope, "within": within} for row in told_among(sketches, prompts, groups, seed)]
            continue
        for rate in NOISY:
            areas = areas_by_size(sketches, prompts, rate, seed, SIZES if scope != "top" else (), lead=lead)
            told = {"what": "told", "truth": "turned at random", "rate": rate, "scope": scope}
            rows += [{**told, "leaders": size, "area": area} for size, area in areas.items()]
        if known.any():
            alignment = judged(sketches, prompts, lead).alignment.numpy()
            by_prompt = prompts.numpy()[known]
            area = bootstrap(area_under_roc, -alignment[known], subsets[known] == DISAGREE, clusters=by_prompt)
            disputed = {"what": "told", "truth": "disputed", "rate": 0.0, "scope": scope, "leaders": len(prompts)}
            rows.append({**disputed, "area": area.value, "least": area.low, "most": area.high})
    return rows


def told_among(sketches: Tensor, prompts: Tensor, groups: Groups | None, seed: int) -> Rows:
    """How well labels turned at random are told among these peers, and what share is estimated; at 0 as they are."""
    import numpy as np
    import torch

    from gapo.consensus.mixture import fit
    from gapo.consensus.peers import along_peers, peers
    from gapo.diagnostics.ranking import area_under_roc

    ready, count, rows = peers(sketches, groups=groups), len(sketches), []
    for rate in (0.0, *NOISY):
        turned = np.zeros(count, dtype=np.bool_)
        turned[np.random.default_rng(seed).choice(count, round(rate * count), replace=False)] = True
        alignment = along_peers(ready, prompts, sign=torch.from_numpy(np.where(turned, -1.0, 1.0))).numpy()
        area = area_under_roc(-alignment, turned) if rate else None
        told = {"what": "told", "truth": "turned at random", "rate": rate, "leaders": count}
        rows.append({**told, "area": area, "estimated": fit(alignment).rate})
    return rows


def subsets_of(run: StoredRun, ids: list[str]) -> list[str]:
    """What the data say of these pairs beyond their label."""
    from gapo.pairs.formats import load_pairs

    named = {pair.id: pair.subset or "" for pair in load_pairs(run.recipe["data"]["train"])}
    return [named.get(name, "") for name in ids]
