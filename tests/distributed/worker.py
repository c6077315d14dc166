"""One rank of a training run, or the only one: `worker.py KIND OUT CASE...` leaves what each case found in OUT."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from cases import CASES, PER_RANK, ROWS

import tiny
from runs_of_tests import StopAfter, text_rows, trainer


def main(kind: str, out: Path, names: list[str]) -> None:
    if kind == "fsdp2":
        let_cpus_shard()
    for name in names:
        found = run(name, kind, out / name)
        if found is not None:
            torch.save(found, out / f"{name}.pt")


def run(name: str, kind: str, folder: Path) -> dict[str, object] | None:
    """Ten steps; on the first rank: weights, the record of pairs and steps, and an evaluation."""
    options = dict(CASES[name])
    ranks = 2 if kind in ("ddp", "fsdp2") else 1
    resume = options.pop("resumed", False)
    lora = options.pop("lora", None)
    efficient = bool(options.pop("efficient", False)) and kind == "fsdp2"
    if lora is not None:
        from peft import LoraConfig

        options["extra_peft_config"] = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
    if kind == "fsdp2":
        options["fsdp"] = True
        options["fsdp_config"] = {
            "version": 2,
            "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"],
            "reshard_after_forward": True,
            "cpu_ram_efficient_loading": efficient,
            "state_dict_type": "SHARDED_STATE_DICT",
        }
    options = {
        "max_steps": 10,
        "per_device_train_batch_size": PER_RANK * 2 // ranks,
        "gradient_accumulation_steps": 2,
        "lr_scheduler_type": "cosine",
        "max_grad_norm": 1.0,
        **options,
    }
    rows = text_rows(ROWS)
    tied = bool(options.pop("tied", False))

    def made(steps: int):
        torch.manual_seed(0)  # adapters start at random
        model = tiny.llama(tied=tied)
        if efficient and os.environ["RANK"] != "0":
            for parameter in model.parameters():
                parameter.data.zero_()  # the first rank reads the weights for all
        return trainer(folder, rows, model=model, eval_rows=text_rows(7, seed=1), **{**options, "max_steps": steps})

    broken_off = resume and ranks > 1
    if broken_off:
        stopped = made(10)
        stopped.add_callback(StopAfter(5))
        stopped.train()
    run_ = made(10)
    run_.train(resume_from_checkpoint=broken_off or None)
    metrics = run_.evaluate()
    run_.save_model(str(folder / "model"))
    weights = whole_weights(run_.model)
    if not run_.ranks.first:
        return None
    table = pq.read_table(folder / "pairs.parquet")
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    return {
        "weights": weights,
        "pairs": table.to_pydict(),
        "steps": steps,
        "metrics": metrics,
        "run_through": not broken_off,
        "engine": run_.engine_choice.name if run_.engine_choice else None,
        "logged": [line["loss"] for line in run_.state.log_history if "loss" in line],
    }


def whole_weights(model) -> torch.Tensor:
    """All trained parameters in one tensor, gathered where they are shards."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.cat([(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().flatten() for p in trained])


def let_cpus_shard() -> None:
    """accelerate falls back to DDP on CPUs, where FSDP2 itself works: say that it is FSDP all the same."""
    from accelerate.state import AcceleratorState, DistributedType, PartialState

    begin = AcceleratorState.__init__

    def init(self, *args, fsdp_plugin=None, **options):
        begin(self, *args, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.FSDP
            self.fsdp_plugin = fsdp_plugin
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = init


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
