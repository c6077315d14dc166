"""One rank of two that share a model out: gaps and margins as they should be, and with gathered weights kept."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch.distributed.fsdp import fully_shard

import gapo.model.passes
import tiny
from gapo.anchor.settings import AnchorSettings
from gapo.anchor.two_pass import TwoPass
from gapo.model.passes import forward
from gapo.model.ranks import join
from gapo.pairs.collate import collate


def main(out: Path) -> None:
    ranks = join()
    batch = collate(tiny.random_pairs(6)[ranks.here :: ranks.total], tiny.PAD)
    found = {"whole": measured(tiny.llama, batch, ranks), "fresh": measured(sharded, batch, ranks)}
    gapo.model.passes.fresh_weights = nullcontext
    found["stale"] = measured(sharded, batch, ranks)
    gathered = {name: [ranks.gather(part) for part in parts] for name, parts in found.items()}
    if ranks.first:
        torch.save(gathered, out)


def sharded() -> torch.nn.Module:
    """As accelerate shares models out: norm and head stay gathered after a forward, and so does the root."""
    model = tiny.llama()
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model.model.embed_tokens)
    fully_shard([model.model.norm, model.lm_head], reshard_after_forward=False)
    return fully_shard(model)


def measured(model_of, batch, ranks) -> list[torch.Tensor]:
    """The gaps along a random direction, and the margins back home after a visit to the anchor."""
    settings = AnchorSettings(engine="two_pass", radius=0.5)
    along_random = TwoPass(replace(settings, strategy="random"), ranks=ranks).anchors(model_of(), [batch], step=1)
    model = model_of()
    TwoPass(settings, ranks=ranks).anchors(model, [batch], step=1)
    return [along_random.gap, forward(model, [batch]).margin]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
    torch.distributed.destroy_process_group()
