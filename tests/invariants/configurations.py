"""Ways to compute one and the same training run, in classes of what they change.

All must give the recorded trajectory of their objective. In float64 sums taken in another order differ by 1e-16 of
themselves, which six steps make 3e-14: 1e-9 leaves room for other processors and libraries, and is far below any change
of the method. In float32 it is 1e-7 and 3e-6: 1e-4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FLOAT64, FLOAT32 = 1e-9, 1e-4


@dataclass(frozen=True)
class Configuration:
    """Of a class; `same_bits` says that not even rounding may differ from the plain run on this machine."""

    of: str
    options: dict[str, Any] = field(default_factory=dict)
    objectives: tuple[str, ...] = ("gapo",)
    same_bits: bool = False
    resumed: bool = False
    single: bool = False  # float32
    processes: int = 1

    @property
    def tolerance(self) -> float:
        return FLOAT32 if self.single else FLOAT64


ALL = ("gapo", "dpo", "simpo")
TWO_PASS, BANK = {"anchor_engine": "two_pass"}, {"anchor_engine": "bank"}
REENTRANT, NOT_REENTRANT = (
    {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": kind}} for kind in (True, False)
)


def cut(batch: int, accumulation: int) -> dict[str, Any]:
    return {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation}


CONFIGURATIONS = {
    "plain": Configuration("plain", objectives=ALL),
    "again": Configuration("the same once more", same_bits=True),
    "4x2": Configuration("micro-batches", cut(4, 2), ("gapo", "dpo")),
    "2x4": Configuration("micro-batches", cut(2, 4), ("gapo", "simpo")),
    "1x8": Configuration("micro-batches", cut(1, 8)),
    "bank": Configuration("engine", BANK),
    "bank 2x4": Configuration("engine", {**BANK, **cut(2, 4)}),
    "two rows": Configuration("prefix sharing", {"shared_prefix": "off"}, ALL),
    "bank, two rows": Configuration("prefix sharing", {**BANK, "shared_prefix": "off"}),
    "reentrant": Configuration("checkpointing", REENTRANT, ("gapo", "dpo"), same_bits=True),
    "not reentrant": Configuration("checkpointing", NOT_REENTRANT, ("gapo", "simpo"), same_bits=True),
    "bank, reentrant": Configuration("checkpointing", {**BANK, **REENTRANT}),
    "bank, not reentrant": Configuration("checkpointing", {**BANK, **NOT_REENTRANT}),
    "resumed": Configuration("resume", objectives=("gapo", "dpo"), same_bits=True, resumed=True),
    "on disk": Configuration("data", {"cache_tokens": True}, same_bits=True),
    "workers": Configuration("data", {"dataloader_num_workers": 1}, same_bits=True),
    "bank, two rows, 2x4, reentrant, resumed": Configuration(
        "all at once", {**BANK, **cut(2, 4), **REENTRANT, "shared_prefix": "off"}, resumed=True
    ),
    "float32": Configuration("precision", single=True, objectives=("gapo", "dpo")),
    "float32, bank": Configuration("precision", BANK, single=True),
    "two processes": Configuration("processes", cut(4, 1), ("gapo", "dpo"), processes=2),
    "two processes, bank": Configuration("processes", {**BANK, **cut(2, 2)}, processes=2),
}
CASES = [(name, objective) for name, one in CONFIGURATIONS.items() for objective in one.objectives]
