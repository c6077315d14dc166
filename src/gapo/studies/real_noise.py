"""Wrong labels and a real language model: SmolLM2 on short pairs with a share of the labels flipped."""

from __future__ import annotations

from typing import Any

from gapo.studies import paper
from gapo.studies.columns import ACCURACY, NAME, in_points
from gapo.studies.exhibits import PERCENT, PLAIN, POINTS, RATIO, SAID, SHARE, WORDS, Column, Dots, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.names import method_name
from gapo.studies.noise import PAPER_GAIN
from gapo.studies.planned import NOT_YET, with_planned
from gapo.studies.real_looks import trained_on_noise
from gapo.studies.rows import Rows, Tables, first, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import minus, summarised
from gapo.studies.sentences import compared, kept_as, percent, plain, ranking
from gapo.studies.study import Claim, Study

METHODS: tuple[str, ...] = ("gapo", "simpo", "dpo", "length_only", "gradnorm", "robust_dpo", "dr_dpo")
FEWER = METHODS[:4]
CONDITIONS = (("random", 0.2), ("random", 0.0), ("length", 0.2), ("random", 0.4))
FLIPS = {"random": "at random", "length": "by length"}
TWENTY: dict[str, Any] = {"data": "polite", "flips": "at random", "rate": 0.2}
FLIPPED_WEIGHT = "Weight of flipped pairs against clean ones"
BY = ["data", "flips", "rate", "method"]
MEASURES = ("accuracy", "likelihood_accuracy", "accuracy_before", "margin", "kl", "seconds")
LABELS = ("clean_weight", "flipped_weight", "relative", "bottom", "middle", "top", "bottom_minus_top")
WEIGHTS = (*LABELS, "weight_area", "margin_area", "length_term_area", "weight_spread")
SECONDS = {"gapo": 330, "gradnorm": 300}
REASON = "an anchor gap is mostly the pair's own gradient norm, which a turned label leaves as it is (see `confounds`)"


def grid(scale: Scale) -> list[Cell]:
    """The most telling condition first: a queue may be stopped anywhere."""
    conditions = [("polite", METHODS, kind, rate) for kind, rate in CONDITIONS]
    conditions += [("courtesy", FEWER, kind, rate) for kind, rate in CONDITIONS[:2]]
    return [
        Cell(
            method,
            {"noise.kind": kind, "noise.rate": rate},
            {"data": data, "flips": FLIPS[kind] if rate else "none", "rate": rate},
            timed=True,
            recipe=f"smollm2-{data}",
            seconds=SECONDS.get(method, 240),
        )
        for data, methods, kind, rate in conditions
        for method in methods
    ]


def tables(rows: Rows) -> Tables:
    runs = where(rows, what="outcome")
    noisy = [row for row in runs if row["rate"]]
    return {
        "accuracy": with_planned(summarised(runs, BY, MEASURES), grid(SMOLLM2), BY),
        "gapo_minus": minus(runs, "gapo", [name for name in METHODS if name != "gapo"], ("accuracy",), BY[:-1]),
        "weights": summarised(noisy, BY, WEIGHTS),
        "at_twenty": summarised(where(runs, **TWENTY), BY, ("accuracy", "kl")),
        "replies": [
            {key: row[key] for key in ("method", "flips", "rate", "prompt", "before", "after")}
            for row in where(rows, what="reply")
        ],
    }


def findings(found: Tables) -> list[str]:
    weights = first(found["weights"], **TWENTY, method="gapo")
    against = first(found["gapo_minus"], **TWENTY, method="simpo")
    return [
        ranking(where(found["accuracy"], **TWENTY), "accuracy", "accuracy on polite pairs with 20 % flipped at random"),
        compared("gapo", "simpo", kept_as(against, "accuracy"), "that accuracy"),
        "The weights of flipped pairs were not measured yet."
        if weights is None
        else f"GAPO's weights of flipped pairs differ by {percent(weights['relative'])} from those of clean ones; a "
        f"low weight finds flipped pairs with an area under the ROC curve of {plain(weights['weight_area'])}, a low "
        f"margin with {plain(weights['margin_area'])} ({weights['seeds']} of 3 seeds).",
    ]


def claims(found: Tables) -> list[Claim]:
    """The paper's robust method is above the others where labels are wrong, and trusts flipped pairs less."""
    weights = first(found["weights"], **TWENTY, method="gapo")
    return [
        *(
            Claim(
                f"GAPO minus {method_name(other)}, 20 % flipped at random",
                kept_as(first(found["gapo_minus"], **TWENTY, method=other), "accuracy"),
                PAPER_GAIN["at random", 0.2, other],
                reason=REASON,
            )
            for other in ("dpo", "dr_dpo")
        ),
        Claim(FLIPPED_WEIGHT, kept_as(weights, "relative"), paper.FLIPPED_WEIGHT, upward=False, reason=REASON),
    ]


DATA, KIND = Column("data", "pairs", WORDS), Column("flips", "flipped", WORDS)
RATE, SEEDS = Column("rate", "share flipped", SHARE), Column("seeds", "seeds", PLAIN)
DRIFT, BEFORE = Column("kl", "drift, nats a token", PLAIN), Column("accuracy_before", "before training")
CELL = (DATA, KIND, RATE, NAME)
AREAS = tuple(
    Column(f"{key}_area", f"area, {words}", RATIO)
    for key, words in {"weight": "low weight", "margin": "low margin", "length_term": "short"}.items()
)
WEIGHT_COLUMNS = (
    Column("clean_weight", "weight, clean", PLAIN),
    Column("flipped_weight", "weight, flipped", PLAIN),
    Column("relative", "flipped against clean, %", POINTS),
    Column("bottom", "flipped in the bottom 20 %", PERCENT),
    Column("top", "flipped in the top 20 %", PERCENT),
)
SPOKEN = tuple(Column(key, key, SAID) for key in ("prompt", "before", "after"))
REAL_NOISE = Study(
    name="real/noise",
    title="Wrong labels and a real language model",
    question="How well does a real model tell clean held-out pairs apart when a share of its training labels is wrong?",
    grid=grid,
    observe=trained_on_noise,
    tables=tables,
    findings=findings,
    claims=claims,
    seeds=3,
    real_model=True,
    long=True,
    differs="The paper trains Pythia-2.8B on 160,000 pairs of Anthropic HH; this is SmolLM2-135M-Instruct, all weights "
    "in fp32, 12 steps of 16 short pairs. Accuracy is that of each method's own reward, on 151 clean polite or 80 "
    "clean courtesy test pairs. Weights are those of the training steps themselves, tiers by weight over the run; an "
    "area is that under the ROC curve of finding flipped pairs. What a run of 192 pairs on 135M weights shows need "
    "not hold for 7B models.",
    exhibits=(
        Dots("accuracy", "at_twenty", "Accuracy on clean polite pairs, 20 % flipped at random", ACCURACY, NAME),
        Pivot("accuracy", "Accuracy on clean test pairs", (DATA, KIND, RATE), NAME, ACCURACY, absent=NOT_YET),
        Sheet("gapo_minus", "GAPO minus each method, in points", (*CELL, in_points(ACCURACY), SEEDS)),
        Sheet("weights", "Weights of clean and flipped pairs", (*CELL, *WEIGHT_COLUMNS, *AREAS, SEEDS)),
        Sheet("accuracy", "Every condition", (*CELL, BEFORE, ACCURACY, DRIFT, SEEDS)),
        Sheet("replies", "Replies of courtesy runs, first seed", (NAME, RATE, *SPOKEN)),
    ),
)
