"""A question of our own: are pairs on which two judges disagree the ones that GAPO trusts less?"""

from __future__ import annotations

import numpy as np

from gapo.studies.exhibits import PLAIN, POINTS, RATIO, WORDS, Column, Dots, Histogram, Sheet
from gapo.studies.grid import Cell
from gapo.studies.judged_looks import BATCH, probes
from gapo.studies.rows import Row, Rows, Tables, first, number
from gapo.studies.scale import MINI, Scale
from gapo.studies.sentences import percent, plain
from gapo.studies.study import Study

MODEL, PAIRS = "smollm2-135m-instruct", 16  # pairs for each seed: 9 s each on a core
KINDS = {True: "judges disagree", False: "judges agree"}
TIERS = ("bottom 20 %", "middle 60 %", "top 20 %")
KNOBS = {"objective.beta": 2.5, "objective.gamma": 0.1, "anchor.radius": 0.05, "train.learning_rate": 0.0}
TEXT = {"data.train": "judges", "data.eval": None, "data.template": "chat", "data.max_length": 256}


def grid(scale: Scale) -> list[Cell]:
    """One probe for each seed, alone on the machine: a bank of this model's gradients fills gigabytes."""
    count = PAIRS if scale is MINI else 4 * PAIRS
    changes = {"model.name": MODEL, **TEXT, **KNOBS, "data.limit": count}
    return [Cell("gapo", changes, {"model": MODEL}, timed=True, trained=False)]


def tables(rows: Rows) -> Tables:
    """All seeds' pairs together; intervals over prompts."""
    import pyarrow as pa

    from gapo.diagnostics.intervals import flat
    from gapo.diagnostics.signals import finders
    from gapo.diagnostics.tiers import contrast, tier_difference, tiers

    seen = [row for row in rows if "disputed" in row]
    table = pa.Table.from_pylist(seen)
    weight, marked = (np.array([row[name] for row in seen]) for name in ("weight", "disputed"))
    prompts = np.array([row["prompt"] for row in seen])
    bands = zip(TIERS, tiers(weight, marked, clusters=prompts), strict=True)
    summary = {
        **flat(contrast(weight, marked, clusters=prompts)),
        **flat(tier_difference(weight, marked, clusters=prompts), "bottom_minus_top"),
        "prompts": len(np.unique(prompts)),
    }
    return {
        "weights": [summary],
        "tiers": [{"tier": name, "pairs": band.pairs, **flat(band.rate, "rate")} for name, band in bands],
        "finders": [flat(one) for one in finders(table, marked.astype(float), clusters=prompts)],
        "pairs": [{"kind": KINDS[bool(row["disputed"])], "weight": row["weight"], "gap": row["gap"]} for row in seen],
    }


def findings(found: Tables) -> list[str]:
    (summary,) = found["weights"]
    area = first(found["finders"], signal="weight") or {}
    disputed, others = (int(summary[name]) for name in ("marked_pairs", "other_pairs"))
    return [
        f"The mean weight of {disputed} disputed pairs differs by {percent(summary['relative'])} from that of {others} "
        f"agreed ones (95 % interval {percent(summary['relative_low'])} to {percent(summary['relative_high'])}).",
        f"A low weight finds disputed pairs with an area under the curve of {_area(area)}; chance is 0.5.",
        f"These intervals are {_verdict(area)}.",
    ]


def _area(row: Row) -> str:
    return f"{plain(row.get('area'))} (95 % interval {plain(row.get('area_low'))} to {plain(row.get('area_high'))})"


def _verdict(row: Row) -> str:
    """What the area's interval allows to say."""
    low, high = number(row.get("area_low")), number(row.get("area_high"))
    if low is None or high is None or low <= 0.5 <= high:
        return "wide, and so few pairs do not show that disputed pairs weigh less, nor that they do not"
    return f"clear: disputed pairs are {'' if low > 0.5 else 'not '}the low-weight ones"


COUNTS = (Column("marked_pairs", "disputed pairs", PLAIN), Column("other_pairs", "agreed pairs", PLAIN))
MEANS = (Column("marked", "their mean weight", PLAIN), Column("others", "that of the agreed", PLAIN))
RELATIVE = Column("relative", "disputed over agreed, minus 1")
BANDS = Column("bottom_minus_top", "bottom minus top tier", POINTS)
WEIGHT, KIND = Column("weight", "weight", PLAIN), Column("kind", "", WORDS)
SIGNAL, AREA = Column("signal", "signal", WORDS), Column("area", "area under the ROC curve", RATIO)
TIER_SHEET = (Column("tier", "by weight", WORDS), Column("pairs", "pairs", PLAIN), Column("rate", "disputed"))
JUDGES = Study(
    name="judges",
    title="Pairs on which two judges disagree",
    question="Are pairs on which GPT-4 and Claude disagree the ones with little weight?",
    grid=grid,
    observe=probes,
    tables=tables,
    findings=findings,
    differs="Not in the paper. The lab's model does not know English, so these pairs are probed, not trained on, with "
    f"SmolLM2-135M-Instruct as it is: {PAIRS} for each seed (four times as many at the scale smollm2), in anchor batches "
    f"of {BATCH}, cut at 256 tokens; radius 0.05, beta 2.5, gamma 0.1. Half of each seed's pairs are disputed (of all, "
    "a quarter is), so a tier holds one half by chance. All seeds' pairs are taken together: intervals in these tables "
    "resample prompts, not seeds. Signals point to the end that was called suspicious before looking.",
    exhibits=(
        Dots("finders", "finders", "How well each signal finds disputed pairs; chance is 0.5", AREA, SIGNAL),
        Histogram("pairs", "pairs", "Weights of both kinds of pairs", WEIGHT, KIND),
        Sheet("weights", "Weights", (*COUNTS, *MEANS, RELATIVE, BANDS)),
        Sheet("tiers", "Disputed pairs by weight", TIER_SHEET),
        Sheet("finders", "Which signal finds disputed pairs", (SIGNAL, AREA)),
    ),
)
