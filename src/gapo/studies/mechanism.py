"""The paper's look into the weights: do flipped pairs lose weight as training goes on?"""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.exhibits import PERCENT, PLAIN, POINTS, SHARE, WORDS, Column, Curves, Sheet
from gapo.studies.grid import Cell
from gapo.studies.looks import weights_by_label
from gapo.studies.rows import Rows, Tables, a_line_each, first
from gapo.studies.scale import Scale
from gapo.studies.seeds import summarised
from gapo.studies.sentences import NONE, interval, kept_as, percent, points
from gapo.studies.study import Claim, Study

RATE = 0.2
STEPS = 64  # of a run that has no number of its own: 2,048 pairs at mini scale
MEASURES = ("clean", "flipped", "relative", "bottom", "middle", "top", "bottom_minus_top", "spread")
LABELS, TIERS = ("clean", "flipped"), {"bottom": "bottom 20 %", "middle": "middle 60 %", "top": "top 20 %"}
REASON = (
    "turning a label round leaves the pair's own term of the gap as it is and turns the others' term, so "
    "a flipped pair that pulls against the others has a smaller gap, not a larger one"
)


def grid(scale: Scale) -> list[Cell]:
    """As many pairs as fill the steps of one epoch, so that quarters fall on steps; every pair is tracked."""
    steps = scale.changes.get("train.max_steps", STEPS)
    saves = {"train.save_strategy": "steps", "train.save_steps": steps // 4}
    noise = {"noise.kind": "random", "noise.rate": RATE}
    return [Cell("gapo", {**noise, **saves, "data.limit": steps * scale.step_pairs})]


def tables(rows: Rows) -> Tables:
    moments = summarised([row for row in rows if "epoch" in row], ["epoch"], MEASURES)
    return {
        "moments": moments,
        "weights": a_line_each(moments, "epoch", {name: name for name in LABELS}, "labels", "weight"),
        "tiers": a_line_each(moments, "epoch", TIERS, "tier", "flip_rate"),
    }


def findings(found: Tables) -> list[str]:
    begin, end = first(found["moments"], epoch=0.0), first(found["moments"], epoch=1.0)
    if begin is None or end is None:
        return ["The weights at the start and at the end were not measured."] * 3
    weigh, tiers = kept_as(end, "relative"), kept_as(end, "bottom_minus_top")
    return [
        f"Flipped pairs weigh {percent(abs(end['relative']))} {'less' if end['relative'] < 0 else 'more'} than clean "
        f"ones at the end ({interval(weigh) if weigh else NONE}); at the start it was {points(begin['relative'])} %.",
        f"Of the 20 % with the lowest weights {percent(end['bottom'])} are flipped, of the 20 % with the highest "
        f"{percent(end['top'])}: a difference of {points(end['bottom_minus_top'])} points "
        f"({interval(tiers) if tiers else NONE}).",
        f"Weights differ between pairs by {percent(end['spread'])} of their mean (standard deviation).",
    ]


def claims(found: Tables) -> list[Claim]:
    end = first(found["moments"], epoch=1.0)
    words = (
        "Weight of flipped pairs against clean ones at the end",
        "Flipped share of the bottom tier minus the top's",
    )
    tiers = round(paper.TIER_FLIPS["bottom"] - paper.TIER_FLIPS["top"], 3)
    return [
        Claim(words[0], kept_as(end, "relative"), paper.FLIPPED_WEIGHT, upward=False, reason=REASON),
        Claim(words[1], kept_as(end, "bottom_minus_top"), tiers, reason=REASON),
    ]


EPOCH = Column("epoch", "share of the epoch", SHARE)
MOMENTS = (Column("clean", "weight, clean", PLAIN), Column("flipped", "weight, flipped", PLAIN))
TIER_COLUMNS = tuple(Column(key, f"flipped in the {words}", PERCENT) for key, words in TIERS.items())
RELATIVE, LABEL = Column("relative", "flipped against clean, %", POINTS), Column("labels", "labels", WORDS)
MECHANISM = Study(
    name="mechanism",
    title="Which pairs get the weight",
    question="With 20 % of the labels flipped, does GAPO come to trust the flipped pairs less?",
    grid=grid,
    observe=weights_by_label,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper tracks 2,000 pairs of a 7B model and finds flipped pairs to weigh 16.9 % less at the end of the "
    "epoch, 30.1 % flips in the bottom tier and 16.9 % in the top one. Here every training pair is tracked (2,048 at "
    "mini scale): five models of each run stress-test them all, in anchor batches of one step.",
    exhibits=(
        Curves("weights", "weights", "Mean weight", EPOCH, Column("weight", "mean weight", PLAIN), LABEL),
        Curves("tiers", "tiers", "Flips", EPOCH, Column("flip_rate", "flipped"), Column("tier", "tier", WORDS)),
        Sheet("moments", "Weights over the epoch", (EPOCH, *MOMENTS, RELATIVE, *TIER_COLUMNS)),
    ),
)
