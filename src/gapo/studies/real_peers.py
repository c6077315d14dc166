"""The same runs by TRL: is our accuracy theirs, and how long do both take?"""

from __future__ import annotations

from typing import Any

from gapo.studies.columns import ACCURACY, NAME
from gapo.studies.exhibits import PLAIN, RATIO, SECONDS, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.names import method_name
from gapo.studies.planned import with_planned
from gapo.studies.real_columns import SEEDS
from gapo.studies.real_grid import first_pairs, real_cell
from gapo.studies.real_peers_looks import TEST_PAIRS, trained_by_either
from gapo.studies.rows import Rows, Tables, first, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import plain, points
from gapo.studies.study import Study

OURS, THEIRS, STEPS = "gapo", "TRL", 24
BY = ["method", "by"]
HOW: dict[str, dict[str, Any]] = {OURS: {}, THEIRS: {"trained": False, "apart": "trl"}}
VALUES = ("accuracy", "seconds", "first_loss", "last_loss")


def grid(scale: Scale) -> list[Cell]:
    """Ours and TRL's of one method next to each other. TRL trains where we look, so that it is timed alone too.

    Where we log we measure the drift as well, which TRL does not: ours logs once, at the end.
    """
    changes = {**first_pairs(STEPS), "train.cache_reference": False}
    logs = {OURS: {"train.logging_steps": STEPS}, THEIRS: {"train.logging_steps": 1}}
    return [
        real_cell(method, "hh", seconds=600, changes=changes | logs[by], labels={"by": by}, timed=True, **how)
        for method in ("simpo", "dpo")
        for by, how in HOW.items()
    ]


def tables(rows: Rows) -> Tables:
    found = [row for row in rows if "stopped" not in row]
    ratios = []
    for method in ("simpo", "dpo"):
        ours, theirs = (where(found, method=method, by=by) for by in (OURS, THEIRS))
        gain, times = paired(ours, theirs, "accuracy"), paired(ours, theirs, "seconds", ratio=True)
        if gain is not None:
            ratios.append(
                {"method": method, **columns_of("accuracy", gain), **columns_of("times", times), "seeds": gain.seeds}
            )
    summary = summarised(found, BY, VALUES)
    shown = [{**row, "who": f"{row['by']} {row['method']}"} for row in summary]
    return {"runs": with_planned(summary, grid(SMOLLM2), BY), "beside": ratios, "shown": shown}


def findings(found: Tables) -> list[str]:
    said = []
    for method in ("simpo", "dpo"):
        row = first(found["beside"], method=method)
        said.append(
            f"{method_name(method)} was not run yet by both."
            if row is None
            else f"{method_name(method)}: our accuracy is {points(row['accuracy'])} points from TRL's on {TEST_PAIRS} "
            f"pairs, in {plain(row['times'])} of its time."
        )
    return [*said, f"One pair of {TEST_PAIRS} is {points(1 / TEST_PAIRS).removeprefix('+')} points."]


BY_WHOM, TIMES = Column("by", "trained by", WORDS), Column("times", "our time over TRL's", RATIO)
LOSSES = Column("first_loss", "first loss", PLAIN), Column("last_loss", "last loss", PLAIN)
REAL_PEERS = Study(
    name="real/peers",
    title="The same runs by TRL",
    question="Does TRL come to the same accuracy at the same settings, and how long do both take?",
    grid=grid,
    observe=trained_by_either,
    tables=tables,
    findings=findings,
    seeds=1,
    real_model=True,
    long=True,
    differs=f"{STEPS} steps of 16 HH pairs, fp32, AdamW, the same learning rate, schedule, seed and knobs, no dropout; "
    f"TRL 1.16's CPOTrainer with loss simpo and cpo_alpha 0, and its DPOTrainer with a frozen second model, in "
    f"micro-batches of 4. Both models are measured by our evaluation on the same {TEST_PAIRS} test pairs; seconds are "
    "those of training, our pass for the reference log-probs included. Both take the pairs in the same order, as their "
    "losses show.",
    exhibits=(
        Dots(
            "seconds", "shown", "Seconds of training", Column("seconds", "seconds", SECONDS), Column("who", "", WORDS)
        ),
        Sheet("runs", "Runs", (NAME, BY_WHOM, ACCURACY, *LOSSES, Column("seconds", "training", SECONDS), SEEDS)),
        Sheet("beside", "Ours beside TRL's", (NAME, Column("accuracy", "accuracy, points", "points"), TIMES, SEEDS)),
    ),
)
