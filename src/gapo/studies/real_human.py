"""Human preferences and a real language model: SmolLM2 on pairs of Anthropic HH, clean and with wrong labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapo.studies.columns import ACCURACY, NAME
from gapo.studies.consensus import DOUBTS, JUDGED
from gapo.studies.exhibits import PLAIN, WORDS, Column, Dots, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.items import by_items, with_intervals
from gapo.studies.planned import NOT_YET, with_planned
from gapo.studies.real_columns import DRIFT, LIKELIHOOD, RATE, SEEDS, TASK, WEIGHT_COLUMNS
from gapo.studies.real_grid import STEP_PAIRS, first_pairs, real_cell, started
from gapo.studies.real_human_found import findings
from gapo.studies.real_looks import trained_on_people
from gapo.studies.rows import Rows, Tables, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import minus, summarised
from gapo.studies.study import Study

METHODS, STEPS = ("gapo", "simpo", "dpo"), 125
DOUBTING = ("consensus_dpo", "consensus")  # ours, not the paper's: with wrong labels only
SECONDS_EACH = {"gapo": 2800, "simpo": 1800, "dpo": 2000, "consensus_dpo": 2300, "consensus": 2100}
BY = ["rate", "method"]
HH, OTHERS = "hh:test", "llmbar:test"
SHARES = ("accuracy", "likelihood_accuracy")
VALUES = (*SHARES, "pairs")
RUN_VALUES = ("kl", "clean_weight", "flipped_weight", "relative", "estimated", "area")


def grid(scale: Scale) -> list[Cell]:
    """Wrong labels first, then the start model, then clean labels, then ours with wrong ones."""
    noisy, clean = ([_cell(method, rate) for method in METHODS] for rate in (0.2, 0.0))
    return [*noisy, started("hh"), *clean, *(_cell(method, 0.2, JUDGED) for method in DOUBTING)]


def _cell(method: str, rate: float, changes: Mapping[str, Any] | None = None) -> Cell:
    changed = {**first_pairs(STEPS), **(changes or {})}
    return real_cell(method, "hh", rate=rate, seconds=SECONDS_EACH[method], changes=changed)


def tables(rows: Rows) -> Tables:
    named = [{**row, "method": "start"} if row.get("model") == "start" else row for row in rows]
    accuracy = [row for row in named if row.get("what") == "accuracy"]
    whole = where(accuracy, set=HH, subset="all")
    outcome = summarised(where(named, what="outcome"), BY, RUN_VALUES)
    trained = [cell for cell in grid(SMOLLM2) if cell.trained]
    return {
        "accuracy": with_planned(_shares(whole, BY), trained, BY),
        "start": _shares(where(whole, method="start"), ["method"]),
        "subsets": _shares(where(accuracy, set=HH), ["subset", *BY]),
        "others": _shares(where(accuracy, set=OTHERS, subset="all"), BY),
        "tasks": with_intervals(
            summarised(where(named, what="task"), ["task", *BY], ("score", "items")), ["score"], "items"
        ),
        "gapo_minus": by_items(minus(whole, "gapo", METHODS[1:], SHARES, ["rate"]), whole, "gapo", SHARES, ["rate"]),
        "runs": outcome,
        "measured": _shares([row for row in whole if row["method"] != "start"], BY),
    }


def _shares(rows: Rows, by: list[str]) -> Rows:
    return with_intervals(summarised(rows, by, VALUES), SHARES, "pairs")


SUBSET, SET_PAIRS = Column("subset", "subset", WORDS), Column("pairs", "pairs", PLAIN)
SCORE, ITEMS = Column("score", "right"), Column("items", "items", PLAIN)
REAL_HUMAN = Study(
    name="real/human",
    title="Human preferences",
    question="What do methods make of human preferences, clean and with 20 % of the labels flipped?",
    grid=grid,
    observe=trained_on_people,
    tables=tables,
    findings=findings,
    seeds=1,
    real_model=True,
    long=True,
    differs=f"{STEPS} steps of 16, the first {STEPS * STEP_PAIRS:,} pairs of Anthropic HH with at most 800 characters; "
    "learning rates are those chosen on polite pairs. Consensus and Consensus+DPO are ours, not the paper's. Accuracy "
    "is that on HH's test pairs of every length (but prompts of 512 tokens and more), in total and by subset; out of "
    "distribution on llmbar's pairs of at most 1,000 characters; GSM8k (5 examples in the prompt, first 30 items) and "
    "ARC-C (first 100) by lm-eval. A model of this size solves next to no GSM8k. Intervals of one seed are for the "
    "choice of test items: Wilson's, of a difference that of the items drawn again; other seeds may differ by more.",
    exhibits=(
        Dots("accuracy", "measured", "Accuracy on HH's test pairs", ACCURACY, NAME, RATE),
        Pivot("accuracy", "Accuracy of the method's own reward", (RATE,), NAME, ACCURACY, absent=NOT_YET),
        Sheet("subsets", "By subset", (SUBSET, RATE, NAME, SET_PAIRS, ACCURACY, LIKELIHOOD, SEEDS)),
        Sheet("others", "Out of distribution: llmbar", (RATE, NAME, SET_PAIRS, ACCURACY, LIKELIHOOD, SEEDS)),
        Sheet("tasks", "Benchmarks", (TASK, RATE, NAME, ITEMS, SCORE, SEEDS)),
        Sheet("runs", "Runs", (RATE, NAME, DRIFT, *WEIGHT_COLUMNS[:3], *DOUBTS[:2], SEEDS)),
    ),
)
