"""A question of our own: are pairs on which two judges disagree the ones that GAPO trusts less?"""

from __future__ import annotations

from gapo.studies.exhibits import PLAIN, POINTS, RATIO, WORDS, Column, Dots, Histogram, Sheet
from gapo.studies.grid import Cell
from gapo.studies.judged_looks import BATCH, LONGEST, disputes, probes
from gapo.studies.rows import Row, Tables, first, number
from gapo.studies.scale import Scale
from gapo.studies.sentences import percent, plain
from gapo.studies.study import Study

MODEL, PAIRS = "smollm2-135m-instruct", 48  # pairs of each seed
KNOBS = {"objective.beta": 2.5, "objective.gamma": 0.1, "anchor.radius": 0.05, "train.learning_rate": 0.0}
TEXT = {"data.train": "judges", "data.eval": None, "data.template": "chat", "data.max_length": 512}


def grid(scale: Scale) -> list[Cell]:
    """One probe for each seed, alone on the machine: a bank of this model's gradients fills gigabytes."""
    changes = {"model.name": MODEL, **TEXT, **KNOBS, "data.limit": PAIRS}
    return [Cell("gapo", changes, {"model": MODEL}, timed=True, trained=False)]


def findings(found: Tables) -> list[str]:
    (summary,) = found["weights"]
    area = first(found["finders"], signal="weight") or {}
    value, low, high = (plain(area.get(key)) for key in ("area", "area_low", "area_high"))
    disputed, others = (int(summary[name]) for name in ("marked_pairs", "other_pairs"))
    return [
        f"The mean weight of {disputed} disputed pairs differs by {percent(summary['relative'])} from that of {others} "
        f"agreed ones (95 % interval {percent(summary['relative_low'])} to {percent(summary['relative_high'])}).",
        f"A low weight finds disputed pairs with an area under the ROC curve of {value} (95 % interval {low} "
        f"to {high}); chance is 0.5.",
        f"These intervals are {_verdict(area)}.",
    ]


def _verdict(row: Row) -> str:
    """What the area's interval allows to say."""
    low, high = (number(row.get(key)) for key in ("area_low", "area_high"))
    if low is None or high is None or low <= 0.5 <= high:
        return "wide, and so few pairs do not show that disputed pairs weigh less, nor that they do not"
    return f"clear: disputed pairs are {'' if low > 0.5 else 'not '}the low-weight ones"


COUNTS = Column("marked_pairs", "disputed pairs", PLAIN), Column("other_pairs", "agreed pairs", PLAIN)
MEANS = Column("marked", "their mean weight", PLAIN), Column("others", "that of the agreed", PLAIN)
BANDS = Column("relative", "disputed over agreed, minus 1"), Column("bottom_minus_top", "bottom minus top tier", POINTS)
WEIGHT, KIND = Column("weight", "weight", PLAIN), Column("kind", "", WORDS)
SIGNAL, AREA = Column("signal", "signal", WORDS), Column("area", "area under the ROC curve", RATIO)
TIER_SHEET = (Column("tier", "by weight", WORDS), Column("pairs", "pairs", PLAIN), Column("rate", "disputed"))
JUDGES = Study(
    name="judges",
    title="Pairs on which two judges disagree",
    question="Are pairs on which GPT-4 and Claude disagree the ones with little weight?",
    grid=grid,
    observe=probes,
    tables=disputes,
    real_model=True,
    findings=findings,
    differs="Not in the paper. The lab's model does not know English, so these pairs are probed, not trained on, with "
    f"SmolLM2-135M-Instruct as it is, at every scale: {PAIRS} for each seed, of at most {LONGEST} characters with both "
    f"answers, in anchor batches of {BATCH}; radius 0.05, beta 2.5, gamma 0.1. Half of each seed's pairs are disputed "
    "(of all, a quarter is), so a tier holds one half by chance. All seeds' pairs are taken together: intervals in "
    "these tables resample prompts, not seeds. Each signal's suspicious end was named before looking.",
    exhibits=(
        Dots("finders", "finders", "How well each signal finds disputed pairs; chance is 0.5", AREA, SIGNAL),
        Histogram("pairs", "pairs", "Weights of both kinds of pairs", WEIGHT, KIND),
        Sheet("weights", "Weights", (*COUNTS, *MEANS, *BANDS)),
        Sheet("tiers", "Disputed pairs by weight", TIER_SHEET),
        Sheet("finders", "Which signal finds disputed pairs", (SIGNAL, AREA)),
    ),
)
