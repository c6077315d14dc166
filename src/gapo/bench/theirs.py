"""TRL's trainers on our pairs: its own classes, collators and losses, our optimiser, precision and micro-batches.

They get the text of our token ids and tokenise it themselves. TRL's SimPO puts a start token before a prompt that has
none; both add the end of the text where a response lacks it. Gradient checkpointing, on by default in TRL, is off as in
ours. DPO's reference is a second, frozen copy of the model, run in every step, which is TRL's default.
"""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

from gapo.bench.setting import Setting, Workload
from gapo.bench.variants import SIMPO, shared_arguments


def build_simpo(work: Workload, setting: Setting, folder: Path, optimizer: Any) -> Any:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    args = CPOConfig(
        **shared_arguments(setting, folder),
        bf16=setting.precision == "mixed",
        loss_type="simpo",
        cpo_alpha=0.0,
        beta=SIMPO["beta"],
        simpo_gamma=SIMPO["gamma"],
    )
    return CPOTrainer(
        model=work.twin(),
        args=args,
        train_dataset=_data_set(work),
        processing_class=work.tokenizer,
        optimizers=(optimizer, None),  # type: ignore[arg-type]
    )


def build_dpo(work: Workload, setting: Setting, folder: Path, optimizer: Any) -> Any:
    from trl import DPOConfig, DPOTrainer

    args = DPOConfig(**shared_arguments(setting, folder), bf16=setting.precision == "mixed", beta=0.1)
    return DPOTrainer(
        model=work.twin(),
        ref_model=deepcopy(work.model).requires_grad_(False),
        args=args,
        train_dataset=_data_set(work),
        processing_class=work.tokenizer,
        optimizers=(optimizer, None),  # type: ignore[arg-type]
    )


def tokens_of(trainer: Any) -> int:
    """Tokens in its rows, both of a pair, without padding."""
    row = trainer.train_dataset[0]
    if "chosen_input_ids" in row:
        return sum(len(r["chosen_input_ids"]) + len(r["rejected_input_ids"]) for r in trainer.train_dataset)
    return sum(2 * len(r["prompt_ids"]) + len(r["chosen_ids"]) + len(r["rejected_ids"]) for r in trainer.train_dataset)


def _data_set(work: Workload) -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_list(work.text_rows())
