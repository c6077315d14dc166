"""What a run is told, beyond what `TrainingArguments` already says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import TrainingArguments

from gapo.anchor import AnchorSettings
from gapo.consensus.peers import WAYS, WHOLE
from gapo.consensus.scope import AGREED, ALL
from gapo.errors import InputError
from gapo.model.ranks import Ranks, joined, launched
from gapo.model.refusals import NO_HUB_TOKEN, launched_in_bf16, refuse_launch
from gapo.objectives import Objective, get_objective
from gapo.pairs.store import kept_in_memory
from gapo.pairs.tokenise import process_count

CHOICES = {
    "precision": ("fp32", "mixed"),
    "shared_prefix": ("auto", "on", "off"),
    "consensus_lead": (AGREED, ALL),
    "consensus_within": WAYS,
}


@dataclass
class PreferenceConfig(TrainingArguments):
    """`TrainingArguments` with an objective and an anchor.

    Knobs of the objective go into `knobs`; `beta` and `gamma` may be given by name.
    """

    learning_rate: float = field(default=1e-6, metadata={"help": "Preference training wants small steps."})
    logging_steps: float = field(default=10, metadata={"help": "Steps between lines in the log."})
    report_to: str | list[str] | None = field(default="none", metadata={"help": "Trackers to report to."})
    remove_unused_columns: bool = field(default=False, metadata={"help": "Pairs have no unused columns."})

    objective: str = field(default="gapo", metadata={"help": "Name of the objective."})
    beta: float | None = field(default=None, metadata={"help": "The objective's beta; its own default if not given."})
    gamma: float | None = field(default=None, metadata={"help": "The objective's gamma, absolute."})
    knobs: dict[str, Any] | str = field(default_factory=dict, metadata={"help": "Other knobs of the objective."})

    anchor_radius: float = field(default=0.05, metadata={"help": "rho: how far the anchor lies."})
    anchor_batches: int = field(default=8, metadata={"help": "K: micro-batches that share an anchor."})
    anchor_scope: str = field(default="full", metadata={"help": "full, lm_head, or a regex on parameter names."})
    anchor_strategy: str = field(default="batch", metadata={"help": "batch, instance or random."})
    anchor_engine: str = field(
        default="auto", metadata={"help": "auto (an exact one), two_pass, bank, first_order or streaming."}
    )
    anchor_direction: str = field(
        default="global", metadata={"help": "Of several processes: global (one for all) or rank (one for each)."}
    )
    anchor_bank_dtype: str = field(default="auto", metadata={"help": "auto, fp32 or bf16: how a bank keeps gradients."})
    sam_radius: float = field(default=0.0, metadata={"help": "Take the gradient at theta + rho*g/||g|| (SAM); 0: off."})

    consensus_judge: str = field(
        default="start",
        metadata={"help": "Who doubts labels: start (the start model, once), running, or an audit's folder."},
    )
    consensus_scope: str = field(
        default="auto",
        metadata={
            "help": "What judges labels: states (a forward alone), or gradients: full, top (the last quarter of the "
            "layers), lm_head, a regex; auto: states, and full of a running judge."
        },
    )
    consensus_lead: str = field(
        default=AGREED,
        metadata={
            "help": "Which directions judge at the start: agreed (those in which labels agree beyond chance), or all."
        },
    )
    consensus_within: str = field(
        default=WHOLE,
        metadata={"help": "Who judges a pair at the start: all pairs, or those of its own subset."},
    )

    precision: str = field(
        default="fp32", metadata={"help": "fp32, or mixed: bf16 wherever a gradient is computed, fp32 for the gap."}
    )
    shared_prefix: str = field(
        default="auto", metadata={"help": "auto, on or off: one row a pair, its prompt computed once."}
    )

    max_length: int = field(default=2048, metadata={"help": "Tokens of prompt and response together."})
    max_prompt_length: int | None = field(default=None, metadata={"help": "A longer prompt leaves its pair out."})
    template: str = field(default="auto", metadata={"help": "Chat template: auto, chat or none."})
    strict: bool = field(default=False, metadata={"help": "Stop at the first bad row instead of leaving it out."})
    cache_tokens: bool | str = field(
        default="auto",
        metadata={"help": "Keep large sets and their token ids on disk: auto, true (small ones too), false."},
    )
    tokenizer_processes: int | str = field(
        default="auto", metadata={"help": "Processes that tokenise: auto, or how many."}
    )
    cache_reference: bool = field(default=True, metadata={"help": "Keep reference log-probs on disk, by content."})
    drift_pairs: int = field(default=16, metadata={"help": "Pairs on which the drift from the start is measured."})
    reply_prompts: int = field(default=2, metadata={"help": "Prompts answered at each evaluation to spot repetition."})

    def __post_init__(self) -> None:
        self.refuse_launch()
        if self.hub_token:
            raise InputError(NO_HUB_TOKEN)
        for key in ("enable_jit_checkpoint", "ignore_data_skip"):
            if getattr(self, key):
                raise InputError(f"{key} is refused: a resumed run would not end where an uninterrupted one does")
        for key, known in CHOICES.items():
            if (value := getattr(self, key)) not in known:
                raise InputError(f"{key} must be one of {', '.join(known)}, not {value!r}")
        if self.bf16 or launched_in_bf16():
            self.precision = "mixed"
        self.bf16 = self.precision == "mixed"
        kept_in_memory(self.cache_tokens)  # a wrong value is wrong before anything is read
        process_count(self.tokenizer_processes, 1)
        if launched() > 1 and not torch.accelerator.is_available():
            self.use_cpu = True  # said, or accelerate would look for a device of each process
        self._take_new_names()
        super().__post_init__()
        if self.sam_radius < 0:
            raise InputError(f"sam_radius must be at least 0, not {self.sam_radius}")
        self.anchor()
        accumulation = self.gradient_accumulation_steps
        if (
            self.chosen_objective().anchored
            and self.anchor_batches < accumulation
            and accumulation % self.anchor_batches
        ):
            raise InputError(
                f"anchor.batches {self.anchor_batches} does not divide gradient_accumulation_steps {accumulation}; "
                "choose a divisor, so that every anchor is built from as many micro-batches"
            )

    def _take_new_names(self) -> None:
        """transformers 5.23 calls gradient checkpointing activation checkpointing, and warns who does not."""
        for old in ("gradient_checkpointing", "gradient_checkpointing_kwargs"):
            new = old.replace("gradient", "activation")
            if hasattr(self, new) and getattr(self, new) is None:
                setattr(self, new, getattr(self, old))

    def refuse_launch(self) -> None:
        """DeepSpeed, fp16 and FSDP1: one sentence, before transformers or accelerate act on them."""
        refuse_launch(deepspeed=self.deepspeed, fp16=self.fp16, fsdp=self.fsdp, fsdp_config=self.fsdp_config)

    def ranks(self) -> Ranks:
        """The processes of the run. Asking for the device is what makes them join."""
        _ = self.device
        return joined()

    def reading(self) -> dict[str, Any]:
        """How pairs are read and encoded: keyword arguments of `encoded_pairs`."""
        return {"strict": self.strict, "cache": self.cache_tokens, "processes": self.tokenizer_processes}

    def anchor(self) -> AnchorSettings:
        """The anchor's settings."""
        return AnchorSettings(
            radius=self.anchor_radius,
            batches=self.anchor_batches,
            scope=self.anchor_scope,
            strategy=self.anchor_strategy,
            engine=self.anchor_engine,
            bank_dtype=self.anchor_bank_dtype,
            seed=self.seed,
            direction=self.anchor_direction,
        )

    def chosen_objective(self) -> Objective:
        """The objective with its knobs turned."""
        try:
            knobs = json.loads(self.knobs) if isinstance(self.knobs, str) else dict(self.knobs)
        except (ValueError, TypeError):
            raise InputError(f"knobs must map names to values, not {self.knobs!r}") from None
        for name, value in (("beta", self.beta), ("gamma", self.gamma)):
            if value is not None and name in knobs:
                raise InputError(f"{name} is given twice: by name and in knobs")
            if value is not None:
                knobs[name] = value
        return get_objective(self.objective, **knobs)
