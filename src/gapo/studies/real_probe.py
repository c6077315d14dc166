"""The paper's probe on a real language model: alignment, self share and ranks by the size of the anchor batch."""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.exhibits import PERCENT, PLAIN, RATIO, WORDS, Column, Curves, Sheet
from gapo.studies.grid import Cell
from gapo.studies.real_grid import real_cell, started
from gapo.studies.real_probe_looks import probed_by_size
from gapo.studies.rows import Rows, Tables, first, where
from gapo.studies.scale import Scale
from gapo.studies.seeds import summarised
from gapo.studies.sentences import kept_as, percent, plain
from gapo.studies.study import Claim, Study

START, TRAINED = "start", "trained"
MEASURES = {
    "alignment": Column("alignment", "median alignment", PLAIN),
    "orthogonal_alignment": Column("orthogonal_alignment", "were gradients orthogonal", PLAIN),
    "positive": Column("positive", "alignment above 0", PERCENT),
    "self_share": Column("self_share", "self share", PERCENT),
    "cosine": Column("cosine", "mean cosine of two pairs", PLAIN),
    "spearman": Column("spearman", "Spearman, batch against own", RATIO),
    "top_overlap": Column("top_overlap", "overlap of the top 20 %", PERCENT),
    "length_correlation": Column("length_correlation", "Spearman, weight and length term", RATIO),
    "first_order_correlation": Column("first_order_correlation", "first order, correlation", PLAIN),
    "first_order_ratio": Column("first_order_ratio", "first order over measured", RATIO),
}
LOW = ("gap_correlation", "gap_ratio", "weight_correlation")


def grid(scale: Scale) -> list[Cell]:
    """The start model, and the model that the study of noise trains with GAPO and 20 % random flips."""
    return [started("polite", rate=0.2), real_cell("gapo", "polite", rate=0.2, seconds=330, labels={"model": TRAINED})]


def tables(rows: Rows) -> Tables:
    sizes = summarised(where(rows, what="size"), ["model", "batch_pairs"], tuple(MEASURES))
    return {"sizes": sizes, "bf16": summarised(where(rows, what="bf16"), ["model", "batch_pairs"], LOW)}


def findings(found: Tables) -> list[str]:
    small, large = (first(found["sizes"], model=START, batch_pairs=size) for size in (8, 64))
    low = first(found["bf16"], model=START)
    if small is None or large is None or low is None:
        return ["The start model was not probed yet."] * 3
    return [
        f"With 8 pairs in the anchor batch {percent(small['self_share'])} of a gap is the pair's own share, with 64 "
        f"{percent(large['self_share'])}.",
        f"The median alignment in batches of 64 is {plain(large['alignment'])}; were gradients orthogonal it would be "
        f"{plain(large['orthogonal_alignment'])}.",
        f"With weights in bf16 gaps correlate {plain(low['gap_correlation'])} with those in fp32, and their mean is "
        f"{plain(low['gap_ratio'])} of it.",
    ]


def claims(found: Tables) -> list[Claim]:
    large = first(found["sizes"], model=START, batch_pairs=64)
    ours = {key: kept_as(large, key) for key in ("alignment", "spearman")}
    levels = {"alignment": ("Median alignment", 0.0), "spearman": ("Spearman, batch against own, minus one half", 0.5)}
    return [
        Claim(words, found.above(level) if found else None, round(paper.PROBE[key] - level, 3), kind=PLAIN)
        for key, (words, level) in levels.items()
        for found in [ours[key]]
    ]


MODEL, SIZE = Column("model", "model", WORDS), Column("batch_pairs", "pairs in the anchor batch", PLAIN)
LOW_COLUMNS = tuple(Column(key, key.replace("_", " "), RATIO) for key in LOW)
SEEDS = Column("seeds", "seeds", PLAIN)
REAL_PROBE = Study(
    name="real/probe",
    title="The shared anchor of a real model",
    question="How much of a real model's gap is the pair itself? What do larger batches, first order and bf16 change?",
    grid=grid,
    observe=probed_by_size,
    tables=tables,
    findings=findings,
    claims=claims,
    seeds=1,
    real_model=True,
    long=True,
    differs="The paper probes 1,984 pairs of a 7B model in batches of 64. Here 64 polite pairs, 20 % of them flipped, "
    "are probed by SmolLM2 as it is and after 12 steps of GAPO, in batches of 8 to 64. Gaps are those at the anchor; "
    "the first order is rho times the gradient along the direction. In bf16 all weights are rounded before the probe.",
    exhibits=(
        Curves(
            "self_share", "sizes", "Self share by the size of the anchor batch", SIZE, MEASURES["self_share"], MODEL
        ),
        Sheet("sizes", "By the size of the anchor batch", (MODEL, SIZE, *MEASURES.values(), SEEDS)),
        Sheet("bf16", "Weights in bf16 beside fp32", (MODEL, SIZE, *LOW_COLUMNS, SEEDS)),
    ),
)
