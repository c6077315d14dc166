"""Ours, not the paper's: wrong labels found by the other pairs, with a real language model."""

from __future__ import annotations

from gapo.studies.columns import ACCURACY, NAME, in_points
from gapo.studies.consensus import DOUBTS
from gapo.studies.exhibits import PLAIN, RATIO, WORDS, Column, Dots, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.planned import NOT_YET, with_planned
from gapo.studies.real_columns import CELL, DATA, DRIFT, KIND, RATE, SEEDS
from gapo.studies.real_consensus_looks import SHOWN, labels_of_a_real_model
from gapo.studies.real_grid import real_cell
from gapo.studies.rows import Rows, Tables, first, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import minus, summarised
from gapo.studies.sentences import percent, plain, ranking
from gapo.studies.study import Study

OURS = ("consensus_dpo", "consensus")
OTHERS = ("dpo", "simpo")
BY = ["data", "flips", "rate", "method"]
DOUBTED = ("estimated", "true_rate", "area", "precision", "clean_weight", "flipped_weight")
CONDITIONS = (("polite", 0.2), ("polite", 0.4), ("courtesy", 0.2), ("polite", 0.0))
SETS = ("polite", "courtesy", "hh", "judges")


def grid(scale: Scale) -> list[Cell]:
    """Ours beside what each is without doubt, on the runs of real/noise; then the start model on each set of pairs."""
    runs = [real_cell(method, data, "random", rate, 300) for data, rate in CONDITIONS for method in (*OURS, *OTHERS)]
    starts = [
        real_cell(
            "simpo", data, trained=False, apart="labels", changes={"data.limit": SHOWN}, labels={"model": "start"}
        )
        for data in SETS
    ]
    return [*runs[:4], starts[0], *runs[4:8], *starts[1:], *runs[8:]]


def tables(rows: Rows) -> Tables:
    runs = where(rows, what="outcome")
    planned = [cell for cell in grid(SMOLLM2) if cell.trained]
    judged = [row for row in runs if row["method"] in OURS]
    return {
        "accuracy": with_planned(summarised(runs, BY, ("accuracy", "accuracy_before", "kl")), planned, BY),
        "gains": [
            row
            for ours, other in zip(OURS, OTHERS, strict=True)
            for row in minus(runs, ours, [other], ("accuracy",), BY[:-1])
        ],
        "at_twenty": summarised(where(runs, data="polite", rate=0.2), BY, ("accuracy",)),
        "doubts": summarised(judged, BY, DOUBTED),
        "told": summarised(where(rows, what="told"), ["data", "truth", "rate", "scope", "leaders"], ("area",)),
    }


def findings(found: Tables) -> list[str]:
    words = "accuracy on polite pairs with {:.0f} % flipped at random"
    said = [
        ranking(where(found["accuracy"], data="polite", rate=rate), "accuracy", words.format(100 * rate))
        for rate in (0.2, 0.4)
    ]
    judges = first(found["told"], data="judges", truth="disputed")
    return [
        *said,
        f"Where two judges disagree is found with an area under ROC of {plain(judges['area'])} (chance is 0.5), by "
        f"{plain(judges['leaders'])} pairs."
        if judges is not None
        else f"The judged pairs were not looked at yet; {percent(0.5)} would be chance.",
    ]


TOLD = (DATA, Column("truth", "looked for", WORDS), RATE, Column("scope", "gradients of", WORDS))
REAL_CONSENSUS = Study(
    name="real/consensus",
    title="Wrong labels found by the other pairs",
    question="With a real model, can wrong labels be found from the other pairs' direction, and does it help to know?",
    grid=grid,
    observe=labels_of_a_real_model,
    tables=tables,
    findings=findings,
    seeds=3,
    real_model=True,
    long=True,
    differs="Not in the paper. The runs of `real/noise` beside the same with doubt: Consensus is SimPO, Consensus+DPO "
    "is DPO, at their learning rates, each label judged by the start model before the first step on all training pairs "
    f"of the run. What is told at the start is measured on the first {SHOWN} training pairs, with labels turned at "
    "random; of judged pairs also where GPT-4 and Claude disagree, with no label turned.",
    exhibits=(
        Dots("accuracy", "at_twenty", "Accuracy on clean polite pairs, 20 % flipped at random", ACCURACY, NAME),
        Pivot("accuracy", "Accuracy on clean test pairs", (DATA, KIND, RATE), NAME, ACCURACY, absent=NOT_YET),
        Sheet("gains", "With doubt minus without, in points", (*CELL, in_points(ACCURACY), SEEDS)),
        Sheet("doubts", "What is doubted", (*CELL, *DOUBTS, SEEDS)),
        Sheet("told", "What the start model tells", (*TOLD, Column("leaders", "pairs that lead", PLAIN),
                                                     Column("area", "area under ROC", RATIO), SEEDS)),
        Sheet("accuracy", "Every condition", (*CELL, ACCURACY, DRIFT, SEEDS)),
    ),
)  # fmt: skip
