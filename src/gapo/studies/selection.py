"""The paper's use of the gap as a filter: SimPO on the pairs with the lowest gaps at the start, or others."""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.columns import ACCURACY, in_points
from gapo.studies.exhibits import PLAIN, SHARE, WORDS, Column, Curves, Pivot, Sheet
from gapo.studies.grid import AFTER, SEED, Cell
from gapo.studies.looks import scored_or_trained
from gapo.studies.rows import Row, Rows, Tables, first, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, listed, plain
from gapo.studies.study import Claim, Study

SHARES, ENDS = (0.3, 0.5, 0.7), {"lowest": "lowest gaps", "random": "random", "highest": "highest gaps"}
MEASURES = ("accuracy", "margin", "kl", "grad_norm")
BY = ["keep", "share"]
CONTROL, AT_HALF = "SimPO on random pairs", "accuracy with 50 % of the pairs"
SCORES = Cell("gapo", {}, {"keep": "scores", "share": 1.0}, trained=False)
REASON = "in the lab the others' term orders the gaps (`confounds`), so low gaps are pairs that pull against the rest"


def grid(scale: Scale) -> list[Cell]:
    """The scoring probe first; its address is part of the recipe of every run after it."""
    return [SCORES, *(_cell(keep, share) for share in SHARES for keep in ENDS)]


def _cell(keep: str, share: float) -> Cell:
    which = {"from": AFTER, "score": "gap", "keep": keep, "share": share, "seed": SEED}
    changes = {f"data.select.{key}": value for key, value in which.items()}
    return Cell("simpo", changes, {"keep": keep, "share": share}, after=SCORES)


def tables(rows: Rows) -> Tables:
    outcomes = where(rows, what="outcome")
    runs = summarised(outcomes, BY, MEASURES)
    figures = {"paper": paper.SELECTION_ACCURACY, "paper_kl": paper.SELECTION_DRIFT}
    norms = summarised(where(rows, what="norms"), [*BY, "part"], ("grad_norm",))
    return {
        "runs": [{**row, "pairs": ENDS[row["keep"]]} for row in with_paper(runs, BY, **figures)],
        "minus_random": [_minus_random(outcomes, keep, share) for share in SHARES for keep in ("lowest", "highest")],
        "norms": [{**row, "pairs": ENDS[row["keep"]], "kept": f"{row['share']:.0%}"} for row in norms],
    }


def _minus_random(rows: Rows, keep: str, share: float) -> Row:
    here, control = (where(rows, keep=end, share=share) for end in (keep, "random"))
    found = {name: paired(here, control, name) for name in MEASURES}
    columns = {key: value for name, one in found.items() for key, value in columns_of(name, one).items()}
    seeds = getattr(found["accuracy"], "seeds", 0)
    return {"keep": keep, "share": share, "pairs": ENDS[keep], **columns, "seeds": seeds}


def findings(found: Tables) -> list[str]:
    half = {keep: first(found["minus_random"], keep=keep, share=0.5) for keep in ("lowest", "highest")}
    drifts = [first(found["runs"], keep=keep, share=0.5) or {} for keep in ENDS]
    told = listed([f"{plain(row.get('kl'))} ({words})" for row, words in zip(drifts, ENDS.values(), strict=True)])
    return [
        *(compared(f"SimPO on the {ENDS[k]}", CONTROL, kept_as(row, "accuracy"), AT_HALF) for k, row in half.items()),
        f"With 50 % of the pairs the drift on held-out prompts is {told}, in nats a token.",
    ]


def claims(found: Tables) -> list[Claim]:
    of = {"accuracy": ("accuracy", paper.SELECTION_ACCURACY, "points"), "kl": ("drift", paper.SELECTION_DRIFT, PLAIN)}
    what = "Lowest gaps minus random, {:.0f} %: {}"
    return [
        Claim(what.format(100 * row["share"], words), kept_as(row, key), gain, gain > 0, REASON, kind)
        for row in where(found["minus_random"], keep="lowest")
        for key, (words, figures, kind) in of.items()
        for gain in [round(figures["lowest", row["share"]] - figures["random", row["share"]], 3)]
    ]


KEPT, WHICH = Column("share", "share of the pairs", SHARE), Column("pairs", "pairs", WORDS)
KL, MARGIN = Column("kl", "drift, nats a token", PLAIN), Column("margin", "margin", PLAIN)
NORM, PART = Column("grad_norm", "gradient norm", PLAIN), Column("part", "share of the run", SHARE)
SELECTION = Study(
    name="selection",
    title="Training on a selection by the gap",
    question="Does SimPO learn more, and drift less, from the pairs with the lowest gaps at the start?",
    grid=grid,
    observe=scored_or_trained,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper selects from a real data set by the gap of a 7B model. Here 1,600 clean pairs are scored by the "
    "start model, in anchor batches of one step that the seed makes. Drift is KL(start || trained) on the responses "
    "of 200 held-out pairs. Fewer pairs are fewer steps, in both.",
    exhibits=(
        Curves("accuracy", "runs", "Accuracy on held-out pairs", KEPT, ACCURACY, WHICH),
        Curves("drift", "runs", "Drift on held-out prompts", KEPT, KL, WHICH),
        Curves("norms", "norms", "Gradient norms", PART, NORM, WHICH, Column("kept", "kept", WORDS)),
        Pivot("runs", "Accuracy beside the paper's", (KEPT,), WHICH, ACCURACY),
        Pivot("runs", "Drift beside the paper's", (KEPT,), WHICH, KL, "paper_kl"),
        Sheet("runs", "Every selection", (KEPT, WHICH, ACCURACY, MARGIN, KL, NORM)),
        Sheet("minus_random", "Minus random, same seeds", (KEPT, WHICH, in_points(ACCURACY), MARGIN, KL, NORM)),
    ),
)
