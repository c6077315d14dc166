"""What else may set the weights: a pair's own share of the anchor, and the length of its responses."""

from __future__ import annotations

from gapo.studies.columns import ACCURACY, LC, NAME, in_points
from gapo.studies.exhibits import PERCENT, PLAIN, WORDS, Column, Curves, Sheet
from gapo.studies.grid import Cell
from gapo.studies.looks import what_sets_weights
from gapo.studies.mechanism import STEPS
from gapo.studies.rows import Rows, Tables, a_line_each, first, where
from gapo.studies.scale import Scale
from gapo.studies.seeds import minus, summarised
from gapo.studies.sentences import compared, kept_as, percent, plain
from gapo.studies.study import Study

FLIPS = {"noise.kind": "random", "noise.rate": 0.2}  # as in noise, so that runs are shared
METHODS = ("gapo", "length_only", "gradnorm", "simpo")
SIZE_MEASURES = ("pooled", "median", "variance", "gap_self", "gap_others", "length_term")
SHARES = {"pooled": "of all gaps", "median": "of the median pair"}
EXPLAINED = {"gap_self": "own term", "gap_others": "others' term", "length_term": "length, 1/|y_w| + 1/|y_l|"}
SIGNALS = {**EXPLAINED, "weight": "weight", "margin": "margin", "grad_norm": "gradient norm"}


def grid(scale: Scale) -> list[Cell]:
    pairs = scale.changes.get("train.max_steps", STEPS) * scale.step_pairs
    return [
        Cell("gapo", {**FLIPS, "data.limit": pairs}, {"part": "start model"}, trained=False),
        *(Cell(method, FLIPS, {"part": "run"}) for method in METHODS),
    ]


def tables(rows: Rows) -> Tables:
    sizes = summarised(where(rows, what="size"), ["batch_pairs"], SIZE_MEASURES)
    runs = where(rows, what="method")
    named = [{**row, "signal": SIGNALS[row["signal"]]} for row in where(rows, what="signal")]
    return {
        "sizes": sizes,
        "self_share": a_line_each(sizes, "batch_pairs", SHARES, "what", "self_share"),
        "explained": a_line_each(sizes, "batch_pairs", EXPLAINED, "what", "explained"),
        "methods": summarised(runs, ["method"], ("accuracy", "lc_win_rate")),
        "gapo_minus": minus(runs, "gapo", METHODS[1:], ("accuracy", "lc_win_rate")),
        "signals": summarised(named, ["signal", "quarter"], ("area",)),
    }


def findings(found: Tables) -> list[str]:
    sizes, last = found["sizes"], [row for row in found["signals"] if row["quarter"] == 4 and row["area"] is not None]
    if not sizes or not last:
        return ["Self shares and signals were not measured."] * 3
    small, large = sizes[0], sizes[-1]
    best = max(last, key=lambda row: row["area"])
    weight = first(last, signal="weight")
    rows = [(name, first(found["gapo_minus"], method=name)) for name in ("length_only", "gradnorm")]
    return [
        f"Of the gaps {percent(small['pooled'])} is a pair's own share of the anchor in batches of "
        f"{small['batch_pairs']}, {percent(large['pooled'])} in batches of {large['batch_pairs']}; length alone "
        f"explains {percent(small['length_term'])} and {percent(large['length_term'])} of the order of the weights.",
        f"In the last quarter of training {best['signal']} finds flipped pairs best (area under ROC "
        f"{plain(best['area'])}); the weight has {plain(weight['area'] if weight else None)}, and chance 0.5.",
        " ".join(compared("gapo", name, kept_as(row, "accuracy"), "accuracy") for name, row in rows),
    ]


PAIRS, QUARTER = Column("batch_pairs", "pairs that share an anchor", PLAIN), Column("quarter", "quarter", PLAIN)
SHARE, PART = Column("self_share", "self share"), Column("what", "what", WORDS)
SQUARED, AREA = Column("explained", "R² of the weight's ranks"), Column("area", "area under ROC", PLAIN)
NAMES = {**SHARES, "variance": "of the gap's variance", **{key: f"R²: {words}" for key, words in EXPLAINED.items()}}
CONFOUNDS = Study(
    name="confounds",
    title="Self share and length",
    question="How much of the weight is the pair's own gradient or its length, and which signal finds flipped pairs?",
    grid=grid,
    observe=what_sets_weights,
    tables=tables,
    findings=findings,
    differs="The paper has no such study. Self shares are those of the start model, 2,048 pairs of which 20 % are "
    "flipped, to first order. Signals are those that GAPO's runs record step by step; which end of each is the "
    "suspicious one was said before looking (little weight, small margin, small term of others; else the upper end).",
    exhibits=(
        Curves("self_share", "self_share", "Self share", PAIRS, SHARE, PART),
        Curves("explained", "explained", "Weights explained", PAIRS, SQUARED, PART),
        Curves("signals", "signals", "Who finds flips", QUARTER, AREA, Column("signal", "signal", WORDS)),
        Sheet("sizes", "Anchor batches", (PAIRS, *(Column(key, words, PERCENT) for key, words in NAMES.items()))),
        Sheet("methods", "Every method, 20 % flipped", (NAME, ACCURACY, LC)),
        Sheet("gapo_minus", "GAPO minus each, same seeds, in points", (NAME, in_points(ACCURACY), in_points(LC))),
    ),
)
