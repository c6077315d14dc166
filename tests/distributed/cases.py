"""The runs that two processes must repeat: 17 pairs, 8 a step, so every third step has a single pair."""

from __future__ import annotations

ROWS = 17
PER_RANK = 2

CASES: dict[str, dict[str, object]] = {
    "two_pass": {"anchor_engine": "two_pass"},
    "two_pass_k1": {"anchor_engine": "two_pass", "anchor_batches": 1},
    "two_pass_tied": {"anchor_engine": "two_pass", "tied": True},
    "one_micro_batch": {"gradient_accumulation_steps": 1, "anchor_engine": "two_pass"},
    "bank": {"anchor_engine": "bank"},
    "bank_k1": {"anchor_engine": "bank", "anchor_batches": 1},
    "first_order": {"anchor_engine": "first_order"},
    "streaming": {"anchor_engine": "streaming"},
    "instance": {"anchor_engine": "two_pass", "anchor_strategy": "instance"},
    "bank_instance": {"anchor_engine": "bank", "anchor_strategy": "instance"},
    "random": {"anchor_engine": "two_pass", "anchor_strategy": "random"},
    "lm_head": {"anchor_engine": "two_pass", "anchor_scope": "lm_head"},
    "rank_direction": {"anchor_engine": "two_pass", "anchor_direction": "rank"},
    "checkpointing": {
        "anchor_engine": "two_pass",
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
    },
    "simpo": {"objective": "simpo"},
    "dpo": {"objective": "dpo"},
    "kto": {"objective": "kto"},
    "dr_dpo": {"objective": "dr_dpo"},
    "alpha_dpo": {"objective": "alpha_dpo"},
    "gradnorm": {"objective": "gradnorm"},
    "gradnorm_two_pass": {"objective": "gradnorm", "anchor_engine": "two_pass"},
    "length_only": {"objective": "length_only", "anchor_engine": "two_pass"},
    "consensus": {"objective": "consensus"},
    "consensus_running": {"objective": "consensus", "consensus_judge": "running"},
    "sam": {"objective": "simpo", "sam_radius": 0.05},
    "lora": {"lora": True, "anchor_engine": "bank"},
    "lora_two_pass": {"lora": True, "anchor_engine": "two_pass"},
    "lora_dpo": {"lora": True, "objective": "dpo"},
    "efficient": {"anchor_engine": "two_pass", "efficient": True},
    "resumed": {"anchor_engine": "two_pass", "resumed": True, "save_strategy": "steps", "save_steps": 3},
    "resumed_alpha_dpo": {"objective": "alpha_dpo", "resumed": True, "save_strategy": "steps", "save_steps": 3},
}
EVERYWHERE = [
    "two_pass",
    "two_pass_k1",
    "two_pass_tied",
    "one_micro_batch",
    "random",
    "lm_head",
    "checkpointing",
    "simpo",
    "dpo",
    "kto",
    "dr_dpo",
    "alpha_dpo",
    "length_only",
    "sam",
    "lora_two_pass",
    "lora_dpo",
    "resumed",
    "resumed_alpha_dpo",
]
DDP = [
    *EVERYWHERE,
    "bank",
    "bank_k1",
    "first_order",
    "streaming",
    "instance",
    "bank_instance",
    "gradnorm",
    "gradnorm_two_pass",
    "lora",
    "consensus",
    "consensus_running",
]
FSDP2 = [*EVERYWHERE, "efficient"]
