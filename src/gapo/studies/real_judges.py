"""Natural noise and a real language model: trained on GPT-4's labels, does it weigh what Claude disputes less?"""

from __future__ import annotations

from gapo.studies.columns import ACCURACY, NAME
from gapo.studies.exhibits import PLAIN, POINTS, RATIO, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.planned import with_planned
from gapo.studies.real_columns import DRIFT, LIKELIHOOD, SEEDS
from gapo.studies.real_grid import real_cell
from gapo.studies.real_looks import trained_on_judges
from gapo.studies.rows import Rows, Tables, first, where
from gapo.studies.scale import SMOLLM2, Scale
from gapo.studies.seeds import summarised
from gapo.studies.sentences import percent, plain
from gapo.studies.study import Study

ACCURACIES = ("accuracy", "likelihood_accuracy", "pairs")
AREAS = ("method", "signal", "area", "area_low", "area_high")
SECONDS_EACH = {"gapo": 1500, "simpo": 1000, "length_only": 1000}
FIELDS = ("marked_pairs", "other_pairs", "marked", "others", "relative", "relative_low", "relative_high")
TIERS = ("bottom 20 %", "middle 60 %", "top 20 %")


def grid(scale: Scale) -> list[Cell]:
    return [real_cell(method, "judges", seconds=seconds) for method, seconds in SECONDS_EACH.items()]


def tables(rows: Rows) -> Tables:
    """Intervals of weights and areas resample prompts of the first seed's run."""
    early = [row for row in rows if row["seed"] == 0]
    finders = [{key: row[key] for key in AREAS} for row in where(early, what="finder")]
    runs = summarised(where(rows, what="outcome"), ["method"], ("kl", "weight_spread"))
    return {
        "accuracy": summarised(where(rows, what="accuracy"), ["subset", "method"], ACCURACIES),
        "runs": with_planned(runs, grid(SMOLLM2), ["method"]),
        "weights": [{key: row[key] for key in ("method", *FIELDS)} for row in where(early, what="outcome")],
        "finders": finders,
        "shown": where(finders, method="gapo"),
        "tiers": [{**row, "tier": TIERS[row["tier"]]} for row in where(early, what="tier")],
    }


def findings(found: Tables) -> list[str]:
    weights, area = first(found["weights"], method="gapo"), first(found["finders"], method="gapo", signal="weight")
    agreed = first(found["accuracy"], subset="agree", method="gapo")
    if weights is None or area is None or agreed is None:
        return ["GAPO was not trained on the judged pairs yet."] * 3
    low, high = area["area_low"], area["area_high"]
    side = (
        "the interval holds chance"
        if low <= 0.5 <= high
        else f"the interval lies {'above' if low > 0.5 else 'below'} chance"
    )
    return [
        f"Disputed pairs weigh {percent(abs(weights['relative']))} {'less' if weights['relative'] < 0 else 'more'} "
        f"than agreed ones while GAPO trains (95 % interval of the difference {percent(weights['relative_low'])} to "
        f"{percent(weights['relative_high'])}).",
        f"A low weight finds disputed pairs with an area under the ROC curve of {plain(area['area'])} "
        f"({plain(low)} to {plain(high)}): {side}.",
        f"On held-out pairs where both judges agree GAPO's accuracy is {percent(agreed['accuracy'])}.",
    ]


SIGNAL, AREA = Column("signal", "signal", WORDS), Column("area", "area under the ROC curve", RATIO)
COUNTS = Column("marked_pairs", "disputed", PLAIN), Column("other_pairs", "agreed", PLAIN)
MEANS = Column("marked", "their mean weight", PLAIN), Column("others", "that of the agreed", PLAIN)
TIER_SHEET = (NAME, Column("tier", "by weight", WORDS), Column("pairs", "pairs", PLAIN), Column("rate", "disputed"))
REAL_JUDGES = Study(
    name="real/judges",
    title="Natural noise: where two judges disagree",
    question="Trained on GPT-4's labels, does a real model give less weight to pairs on which Claude disagrees?",
    grid=grid,
    observe=trained_on_judges,
    tables=tables,
    findings=findings,
    seeds=1,
    real_model=True,
    long=True,
    differs="Not in the paper. One epoch over 640 pairs of at most 600 characters, 40 steps of 16; labels are GPT-4's, "
    "none is flipped. A pair is disputed where Claude chose the other answer. Weights are those of training steps; "
    "intervals of weights and areas resample prompts, not seeds. Each signal's suspicious end was named in advance.",
    exhibits=(
        Dots("finders", "shown", "How well signals of GAPO's run find disputed pairs; chance is 0.5", AREA, SIGNAL),
        Sheet("weights", "Weights", (NAME, *COUNTS, *MEANS, Column("relative", "disputed over agreed, %", POINTS))),
        Sheet("tiers", "Disputed pairs by weight", TIER_SHEET),
        Sheet("finders", "Which signal finds disputed pairs", (NAME, SIGNAL, AREA)),
        Sheet(
            "accuracy",
            "Accuracy on held-out pairs",
            (Column("subset", "judges", WORDS), NAME, ACCURACY, LIKELIHOOD, SEEDS),
        ),
        Sheet("runs", "Runs", (NAME, DRIFT, SEEDS)),
    ),
)
