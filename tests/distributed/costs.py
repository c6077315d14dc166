"""One rank of two: FLOPs and bytes of the second step of a run, as counted and as predicted."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import torch
from transformers import TrainerCallback
from worker import let_cpus_shard

import gapo.anchor.banked
import tiny
from collectives import Collectives, flop_counter
from gapo.anchor.bank import GradientBank
from gapo.model.passes import batch_tokens
from gapo.runs.lengths import lengths_of
from gapo.runs.predict import Cut, predicted_step
from gapo.runs.sizes import Sizes
from runs_of_tests import text_rows, trainer

RUNS = {
    "ddp": ["simpo", "two_pass", "bank", "first_order", "streaming"],
    "fsdp2": ["simpo", "two_pass"],
}
STEP = 2  # the first is an audit


def main(kind: str, out: Path) -> None:
    if kind == "fsdp2":
        let_cpus_shard()
    gapo.anchor.banked.pairs_at_once = lambda model: 1  # as for all but the smallest models
    found = {name: run(name, kind, out / name) for name in RUNS[kind]}
    (out / f"{kind}-{torch.distributed.get_rank()}.json").write_text(json.dumps(found))


def run(name: str, kind: str, folder: Path) -> dict[str, object]:
    options = {"objective": "simpo"} if name == "simpo" else {"anchor_engine": name}
    if kind == "fsdp2":
        options |= {"fsdp": True, "fsdp_config": {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}}
    model = tiny.llama(dtype=torch.float32, attention="eager")
    sizes, tokens = Sizes.of(model), batch_tokens(model)
    made = trainer(
        folder,
        text_rows(32),
        model=model,
        max_steps=STEP,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
        anchor_batches=2,
        drift_pairs=0,
        **options,
    )
    meter = Meter(made)
    made.train()
    encoded = [[made.train_dataset.encoded[int(i)] for i in rows] for rows in meter.rows]
    shared = made.layout.shared
    cut = Cut([lengths_of(pairs) for pairs in encoded], group=2, shared=shared, tokens=tokens, square=True)
    expected = predicted_step(
        sizes,
        cut,
        objective=made.objective,
        engine=name if made.objective.anchored else "two_pass",
        sharding=kind,
        processes=2,
    )
    counted = {"flops": meter.flops, "bytes": dict(meter.bytes)}
    return {"counted": counted, "predicted": {"flops": expected.flops, "bytes": dict(expected.traffic)}}


class Meter(TrainerCallback):
    """Counts from the first pass of the step to its update; what is summed over a bank is no pass."""

    def __init__(self, made) -> None:
        self.flops, self.bytes, self.rows = 0, {}, []
        self._open = ExitStack()
        self._trainer, self._begin = made, made.get_batch_samples
        made.get_batch_samples = self.start
        made.add_callback(self)

    def start(self, iterator, count, device):
        if self._trainer.state.global_step + 1 != STEP:
            return self._begin(iterator, count, device)
        self._counter, self._seen = self._open.enter_context(flop_counter()), self._open.enter_context(Collectives())
        self._open.enter_context(without_sums_over_banks(self))
        micro, pairs = self._begin(iterator, count, device)
        self.rows = [part["index"] for part in micro]
        return micro, pairs

    def on_pre_optimizer_step(self, args, state, control, **_):
        if state.global_step + 1 == STEP:
            self.bytes = +self._seen.bytes
            self.flops += self._counter.get_total_flops()
            self._open.close()


def without_sums_over_banks(meter: Meter) -> ExitStack:
    """Takes the FLOPs of a bank's sums off again."""
    stack = ExitStack()
    for name in ("sums", "weighted"):
        original = getattr(GradientBank, name)

        def counted(*args, original=original, **options):
            with flop_counter() as inner:
                result = original(*args, **options)
            meter.flops -= inner.get_total_flops()
            return result

        setattr(GradientBank, name, counted)
        stack.callback(setattr, GradientBank, name, original)
    return stack


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]))
    torch.distributed.destroy_process_group()
