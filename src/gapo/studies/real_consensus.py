"""Ours, not the paper's: wrong labels found by the other pairs, with a real language model."""

from __future__ import annotations

from gapo.studies.columns import ACCURACY, NAME, in_points
from gapo.studies.consensus import DOUBTS
from gapo.studies.consensus_tables import RANDOM, USUAL
from gapo.studies.exhibits import PLAIN, RATIO, WORDS, Column, Dots, Pivot, Sheet
from gapo.studies.planned import NOT_YET, with_planned
from gapo.studies.real_columns import CELL, DATA, DRIFT, KIND, RATE, SEEDS
from gapo.studies.real_consensus_found import OTHERS, OURS, findings
from gapo.studies.real_consensus_grid import WAY, compared, grid
from gapo.studies.real_consensus_looks import SHOWN
from gapo.studies.real_looks import trained_on_noise
from gapo.studies.rows import Rows, Tables, where
from gapo.studies.seeds import minus, summarised
from gapo.studies.study import Study

BY = ["data", "flips", "rate", "method"]
TOLD_BY = ["data", "truth", "rate", "scope", "within", "leaders"]
DOUBTED = ("estimated", "true_rate", "area", "precision", "clean_weight", "flipped_weight")


def tables(rows: Rows) -> Tables:
    every = where(rows, what="outcome")
    runs = [row for row in every if row["method"] in OTHERS or row[WAY] == USUAL]
    judged = [row for row in runs if row["method"] in OURS]
    by = [row for row in every if row["method"] in OURS]
    told = [{"within": "all", **row} for row in where(rows, what="told")]
    return {
        "accuracy": with_planned(summarised(runs, BY, ("accuracy", "accuracy_before", "kl")), compared(), BY),
        **{f"{ours}_minus": minus(runs, ours, OTHERS, ("accuracy",), BY[:-1]) for ours in OURS},
        "at_twenty": summarised(where(runs, data="polite", flips=RANDOM, rate=0.2), BY, ("accuracy",)),
        "doubts": summarised(judged, BY, DOUBTED),
        "judged_by": summarised(by, [*BY, WAY], ("accuracy", "area", "estimated", "true_rate")),
        "told": summarised(told, TOLD_BY, ("area", "least", "most", "estimated")),
    }


TOLD = (DATA, Column("truth", "looked for", WORDS), RATE, Column("scope", "judged by", WORDS))
AMONG = Column("within", "judged among", WORDS)
BY_WHAT = (Column(WAY, "judged by", WORDS), ACCURACY, Column("area", "area under ROC", RATIO), DOUBTS[0], SEEDS)
REAL_CONSENSUS = Study(
    name="real/consensus",
    title="Wrong labels found by the other pairs",
    question="With a real model, can wrong labels be found from the other pairs' direction, and does it help to know?",
    grid=grid,
    observe=trained_on_noise,
    tables=tables,
    findings=findings,
    seeds=3,
    real_model=True,
    long=True,
    differs="Not in the paper. Consensus is SimPO and Consensus+DPO is DPO, with doubt, at their learning rates, "
    "beside the runs of `real/noise`; each label judged by the start model before the first step on all training pairs "
    "of the run, by its states (one forward) in directions in which labels agree; some runs by every direction, of "
    "states or of gradients. What is told at the start "
    f"is measured on the first {SHOWN} training pairs, with labels turned at random; of judged pairs also where GPT-4 "
    "and Claude disagree, with no label turned. HH's first 2,000 pairs are judged "
    "together and among their subset, helpful and harmless ones apart; at 0 % the estimated share is that of HH's own "
    "labels. By gradients of all layers (full) or the top ones all directions lead.",
    exhibits=(
        Dots("accuracy", "at_twenty", "Accuracy on clean polite pairs, 20 % flipped at random", ACCURACY, NAME),
        Pivot("accuracy", "Accuracy on clean test pairs", (DATA, KIND, RATE), NAME, ACCURACY, absent=NOT_YET),
        Sheet("consensus_dpo_minus", "Consensus+DPO minus each method, in points", (*CELL, in_points(ACCURACY), SEEDS)),
        Sheet("consensus_minus", "Consensus minus each method, in points", (*CELL, in_points(ACCURACY), SEEDS)),
        Sheet("doubts", "What is doubted", (*CELL, *DOUBTS, SEEDS)),
        Sheet("judged_by", "Judged in other ways", (*CELL, *BY_WHAT)),
        Sheet("told", "What the start model tells", (*TOLD, AMONG, Column("leaders", "pairs that lead", PLAIN),
                                                     Column("area", "area under ROC", RATIO), DOUBTS[0], SEEDS)),
        Sheet("accuracy", "Every condition", (*CELL, ACCURACY, DRIFT, SEEDS)),
    ),
)  # fmt: skip
