"""Figure 3 and table C of the paper: accuracy on clean pairs when a share of the training labels is wrong."""

from __future__ import annotations

from gapo.studies.exhibits import METHOD, PERCENT, POINTS, WORDS, Column, Curves, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.names import method_name
from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows, Tables, first, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, ranking
from gapo.studies.study import Claim, Study

RATES = (0.0, 0.1, 0.2, 0.3, 0.4)
FEWER = (0.0, 0.2, 0.4)  # for methods that are not in the paper's table
METHODS = {"gapo": RATES, "dr_dpo": RATES, "dpo": RATES, "simpo": FEWER, "robust_dpo": FEWER}
KINDS = {"random": "at random", "length": "by length"}
TABLE = {
    ("random", "gapo"): (0.668, 0.656, 0.649, 0.628, 0.598),
    ("random", "dr_dpo"): (0.662, 0.654, 0.642, 0.627, 0.588),
    ("random", "dpo"): (0.633, 0.623, 0.629, 0.585, 0.570),
    ("length", "gapo"): (0.668, 0.633, 0.583, 0.566, 0.520),
    ("length", "dr_dpo"): (0.662, 0.621, 0.492, 0.483, 0.449),
    ("length", "dpo"): (0.633, 0.517, 0.543, 0.543, 0.520),
}
PAPER = {(KINDS[kind], rate, name): at[i] for (kind, name), at in TABLE.items() for i, rate in enumerate(RATES)}
BY = ["flips", "rate", "method"]


def grid(scale: Scale) -> list[Cell]:
    """Clean runs serve both kinds of noise: with no flips the rule does not matter."""
    return [
        Cell(
            method,
            {"noise.kind": kind, "noise.rate": rate} if rate else {},
            {"flips": KINDS[kind], "rate": rate},
        )
        for kind in KINDS
        for method, rates in METHODS.items()
        for rate in rates
    ]


def tables(rows: Rows) -> Tables:
    accuracy = with_paper(summarised(rows, BY, ("accuracy", "likelihood_accuracy", "lc_win_rate")), BY, paper=PAPER)
    minus = [_minus(rows, flips, rate, other) for flips in KINDS.values() for rate in RATES for other in METHODS]
    return {"accuracy": accuracy, "gapo_minus": [row for row in minus if row is not None]}


def _minus(rows: Rows, flips: str, rate: float, other: str) -> dict[str, object] | None:
    here = where(rows, flips=flips, rate=rate)
    found = paired(where(here, method="gapo"), where(here, method=other), "accuracy")
    if other == "gapo" or found is None:
        return None
    paper = [PAPER.get((flips, rate, name)) for name in ("gapo", other)]
    gain = None if paper[0] is None or paper[1] is None else round(paper[0] - paper[1], 3)
    return {"flips": flips, "rate": rate, "method": other, **columns_of("accuracy", found), "paper": gain}


def findings(found: Tables) -> list[str]:
    noisiest = where(found["accuracy"], rate=RATES[-1])
    verdicts = [
        compared(
            "gapo",
            other,
            kept_as(first(found["gapo_minus"], flips=flips, rate=RATES[-1], method=other), "accuracy"),
            f"accuracy with 40 % flipped {flips}",
        )
        for flips, other in (("at random", "dr_dpo"), ("by length", "dr_dpo"))
    ]
    return [ranking(where(noisiest, flips="at random"), "accuracy", "accuracy with 40 % random flips"), *verdicts]


def claims(found: Tables) -> list[Claim]:
    reason = (
        "in the lab a pair's gap hardly depends on whether its label is wrong (see `mechanism`), and then GAPO "
        "cannot trust flipped pairs less"
    )
    return [
        Claim(
            f"GAPO minus {method_name(row['method'])}, {100 * row['rate']:.0f} % flipped {row['flips']}",
            kept_as(row, "accuracy"),
            row["paper"],
            upward=row["paper"] >= 0,
            reason=reason,
        )
        for row in found["gapo_minus"]
        if row["rate"] in (0.2, 0.4) and row["paper"] is not None
    ]


FLIPS, RATE, NAME = Column("flips", "flipped", WORDS), Column("rate", "rate", PERCENT), Column("method", "", METHOD)
NOISE = Study(
    name="noise",
    title="Wrong labels, at random and by length",
    question="How does accuracy on clean test pairs fall as more training labels are wrong?",
    grid=grid,
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper trains Pythia-2.8B on Anthropic HH. Accuracy is that of each method's own reward in both. "
    "SimPO and r-DPO are not in the paper's table. The rule `by length` flips pairs whose chosen response is the longer "
    "one, as in the paper.",
    exhibits=(
        Curves("accuracy", "accuracy", "Accuracy on clean pairs", RATE, Column("accuracy", "accuracy"), NAME, FLIPS),
        Pivot("accuracy", "Accuracy of each method", (FLIPS, RATE), NAME, Column("accuracy", "accuracy")),
        Sheet(
            "gapo_minus",
            "GAPO minus each method, on the same seeds, in points",
            (FLIPS, RATE, NAME, Column("accuracy", "accuracy", POINTS), Column("paper", "paper", POINTS)),
        ),
    ),
)
