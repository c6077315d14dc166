"""A small search for the real language model: learning rates for each family of methods, and for adapters."""

from __future__ import annotations

from gapo.studies.columns import NAME
from gapo.studies.exhibits import PLAIN, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.planned import with_planned
from gapo.studies.real_looks import trained_on_noise
from gapo.studies.real_tuning_found import findings
from gapo.studies.rows import Rows, Tables, grouped, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import summarised
from gapo.studies.study import Study
from gapo.studies.tuning import best_of

FAMILIES = {"simpo": ("simpo",), "dpo": ("dpo", "dr_dpo", "robust_dpo"), "gapo": ("gapo", "gradnorm", "length_only")}
ALL, LORA = "all", "LoRA"
RATES = {  # more where the best was the largest
    (ALL, "simpo"): (1e-5, 2e-5, 4e-5, 8e-5),
    (ALL, "dpo"): (1e-5, 2e-5, 4e-5),
    (ALL, "gapo"): (1e-5, 2e-5, 4e-5, 8e-5, 1.6e-4),
    (LORA, "gapo"): (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 6.4e-3),
    (LORA, "dpo"): (2e-4, 8e-4, 3.2e-3),
}
ADAPTERS = {"model.lora": {"r": 16, "lora_alpha": 32}, "model.merge": True}
BY = ["weights", "method", "learning_rate", "knobs"]
HELD_OUT = {"data.eval": None, "data.eval_fraction": 0.15, "data.eval_limit": 100}
SECONDS = 240


def grid(scale: Scale) -> list[Cell]:
    """Some training prompts of the polite pairs keep their true labels; of the others' labels 20 % are wrong."""
    return [_cell(method, weights, rate) for (weights, method), rates in RATES.items() for rate in rates]


def _cell(method: str, weights: str, rate: float) -> Cell:
    changes = {**HELD_OUT, "noise.rate": 0.2, "train.learning_rate": rate, **(ADAPTERS if weights == LORA else {})}
    labels = {"weights": weights, "learning_rate": rate, "knobs": "{}"}
    return Cell(method, changes, labels, recipe="smollm2-polite", seconds=SECONDS)


def tables(rows: Rows) -> Tables:
    """A member of a family gets what its first chose, on all weights; a setting with a run that stopped is left out."""
    safe = [row for row in rows if "stopped" not in row]
    tried = summarised(where(safe, what="outcome"), BY, ("accuracy", "likelihood_accuracy", "pairs", "kl"))
    groups = grouped(tried, ["weights", "method"])
    best = {method: best_of(group, errors=0) for (weights, method), group in groups.items() if weights == ALL}
    adapters = [best_of(group, errors=0) for (weights, _), group in groups.items() if weights == LORA]
    chosen = [
        {**best[family], "method": member, "family": family}
        for family, members in FAMILIES.items()
        if family in best
        for member in members
    ]
    return {"chosen": chosen, "adapters": adapters, "tried": with_planned(tried, grid(SMOLLM2), BY)}


RATE, VALIDATION = Column("learning_rate", "learning rate", PLAIN), Column("accuracy", "validation accuracy")
SEEDS, DRIFT = Column("seeds", "seeds", PLAIN), Column("kl", "drift, nats a token", PLAIN)
WEIGHTS, EDGE = Column("weights", "weights trained", WORDS), Column("edge", "rate at an end", WORDS)
REAL_TUNING = Study(
    name="real/tuning",
    title="Learning rates of a real language model",
    question="Which learning rate serves each family of methods best on held-out polite pairs?",
    grid=grid,
    observe=trained_on_noise,
    tables=tables,
    findings=findings,
    seeds=1,
    first_seed=100,  # none of the seeds of the other studies
    real_model=True,
    long=True,
    differs="SimPO, DPO and GAPO are tried with 20 % random flips, and judged by the accuracy of their own reward on "
    "clean pairs of held-out training prompts; of equally good rates the smallest is taken (the smallest within a "
    "standard error, the rule at mini scale, hardly trains at all in 12 steps). Dr.DPO and r-DPO take DPO's rate, "
    "GradNorm-Reweight and length only GAPO's. Knobs are the objectives' defaults. GAPO and DPO are also tried with "
    "adapters. The other parts of `real` use `chosen.csv`, on all their pairs.",
    exhibits=(
        Sheet("chosen", "Chosen", (NAME, RATE, VALIDATION, EDGE)),
        Dots("tried", "chosen", "Validation accuracy at the chosen rate", VALIDATION, NAME),
        Sheet("adapters", "Best with adapters (LoRA of rank 16)", (NAME, RATE, VALIDATION, DRIFT, EDGE)),
        Sheet("tried", "All that was tried", (NAME, WEIGHTS, RATE, VALIDATION, DRIFT, SEEDS)),
    ),
)
