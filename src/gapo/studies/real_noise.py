"""Wrong labels and a real language model: SmolLM2 on short pairs with a share of the labels flipped."""

from __future__ import annotations

from gapo.studies.columns import ACCURACY, NAME, in_points
from gapo.studies.exhibits import Dots, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.planned import NOT_YET, with_planned
from gapo.studies.real_columns import AREAS, BEFORE, CELL, DATA, DRIFT, KIND, RATE, SEEDS, SPOKEN, WEIGHT_COLUMNS
from gapo.studies.real_grid import real_cell
from gapo.studies.real_looks import trained_on_noise
from gapo.studies.real_noise_found import TWENTY, claims, findings
from gapo.studies.rows import Rows, Tables, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import minus, summarised
from gapo.studies.study import Study

METHODS: tuple[str, ...] = ("gapo", "simpo", "dpo", "length_only", "gradnorm", "robust_dpo", "dr_dpo")
CONDITIONS = (("random", 0.2), ("random", 0.0), ("length", 0.2), ("random", 0.4))
BY = ["data", "flips", "rate", "method"]
MEASURES = ("accuracy", "likelihood_accuracy", "accuracy_before", "margin", "kl", "seconds")
LABELS = ("clean_weight", "flipped_weight", "relative", "bottom", "middle", "top", "bottom_minus_top")
WEIGHTS = (*LABELS, "weight_area", "margin_area", "length_term_area", "weight_spread")
SECONDS = {"gapo": 330, "gradnorm": 300}


def grid(scale: Scale) -> list[Cell]:
    """The most telling condition first: a queue may be stopped anywhere."""
    twenty, clean, by_length, forty = CONDITIONS
    conditions = [("polite", METHODS, kind, rate) for kind, rate in CONDITIONS]
    conditions += [("courtesy", METHODS[:4], kind, rate) for kind, rate in (twenty, clean)]
    conditions += [("courtesy", METHODS, *forty), ("courtesy", METHODS[4:], *twenty)]
    conditions += [("courtesy", METHODS, *by_length), ("courtesy", METHODS[4:], *clean)]
    return [
        real_cell(method, data, kind, rate, SECONDS.get(method, 240))
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
    card="gapo",
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
