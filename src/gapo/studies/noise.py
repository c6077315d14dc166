"""The paper's robustness figure: accuracy on clean pairs when a share of the training labels is wrong."""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.columns import ACCURACY, NAME, in_points
from gapo.studies.exhibits import POINTS, SHARE, WORDS, Column, Curves, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.names import method_name
from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows, Tables, first, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import minus, summarised
from gapo.studies.sentences import compared, kept_as, ranking
from gapo.studies.study import Claim, Study

RATES, FEWER = paper.FLIP_RATES, (0.0, 0.2, 0.4)  # fewer for methods that are not in the paper's table
METHODS = {"gapo": RATES, "dr_dpo": RATES, "dpo": RATES, "simpo": FEWER, "robust_dpo": FEWER}
KINDS = {"random": "at random", "length": "by length"}
BY = ["flips", "rate", "method"]
PAPER_GAIN = {
    (flips, rate, other): round(paper.NOISE_ACCURACY[flips, rate, "gapo"] - figure, 3)
    for (flips, rate, other), figure in paper.NOISE_ACCURACY.items()
}
REASON = (
    "in the lab a pair's gap hardly depends on whether its label is wrong (see `mechanism`), and then GAPO cannot "
    "trust flipped pairs less"
)


def grid(scale: Scale) -> list[Cell]:
    """Clean runs serve both kinds of noise: with no flips the rule does not matter."""
    return [
        Cell(method, {"noise.kind": kind, "noise.rate": rate} if rate else {}, {"flips": flips, "rate": rate})
        for kind, flips in KINDS.items()
        for method, rates in METHODS.items()
        for rate in rates
    ]


def tables(rows: Rows) -> Tables:
    accuracy = summarised(rows, BY, ("accuracy", "likelihood_accuracy", "lc_win_rate"))
    gains = minus(rows, "gapo", [method for method in METHODS if method != "gapo"], ("accuracy",), ["flips", "rate"])
    return {
        "accuracy": with_paper(accuracy, BY, paper=paper.NOISE_ACCURACY),
        "gapo_minus": with_paper(gains, BY, paper=PAPER_GAIN),
    }


def findings(found: Tables) -> list[str]:
    noisiest = where(found["accuracy"], rate=RATES[-1], flips="at random")
    cases = (("at random", "dr_dpo"), ("by length", "simpo"))
    return [
        ranking(noisiest, "accuracy", "accuracy with 40 % flipped at random"),
        *(
            compared("gapo", other, kept_as(row, "accuracy"), f"accuracy with 20 % flipped {flips}")
            for flips, other in cases
            for row in [first(found["gapo_minus"], flips=flips, rate=0.2, method=other)]
        ),
    ]


def claims(found: Tables) -> list[Claim]:
    rows = [row for row in found["gapo_minus"] if row["rate"] in (0.2, 0.4) and row["paper"]]
    words = "GAPO minus {}, {:.0f} % flipped {}"
    return [
        Claim(
            words.format(method_name(row["method"]), 100 * row["rate"], row["flips"]),
            kept_as(row, "accuracy"),
            row["paper"],
            upward=row["paper"] > 0,
            reason=REASON,
        )
        for row in rows
    ]


FLIPS, RATE = Column("flips", "flipped", WORDS), Column("rate", "share of labels flipped", SHARE)
GAINS = (FLIPS, RATE, NAME, in_points(ACCURACY), Column("paper", "paper", POINTS))
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
    "SimPO and r-DPO are not in its table. `By length` flips pairs whose chosen response is the longer one, as there.",
    exhibits=(
        Curves("accuracy", "accuracy", "Accuracy on clean pairs", RATE, ACCURACY, NAME, FLIPS),
        Pivot("accuracy", "Accuracy of each method", (FLIPS, RATE), NAME, ACCURACY),
        Sheet("gapo_minus", "GAPO minus each method, on the same seeds, in points", GAINS),
    ),
)
