"""The paper's curvature table: extreme eigenvalues of the loss Hessian after DPO, SimPO and GAPO."""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.columns import NAME
from gapo.studies.exhibits import PLAIN, QUOTED, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.names import method_name
from gapo.studies.rows import Row, Rows, Tables, first, number, where
from gapo.studies.second_order_looks import COMMON, EVERY, HEAD, OWN, spectra
from gapo.studies.seeds import minus, summarised
from gapo.studies.sentences import kept_as, listed, plain
from gapo.studies.study import Claim, Study

MEASURES = {"lambda_max": "lambda_max", "top_mean": "top-5 mean", "lambda_min": "lambda_min"}
OTHERS = ("dpo", "simpo")
REASON = (
    "a loss's Hessian grows with beta and with the slope that is left, which differ between the methods' own losses; "
    "the same table with one loss for all tells how much of a difference is the models'"
)


def tables(rows: Rows) -> Tables:
    seen = [{**row, "where": f"{row['part']}, {row['loss']} loss"} for row in rows if "part" in row]
    seen.sort(key=lambda row: row["where"])  # the methods of one Hessian stand together
    spectrum = summarised(seen, ["where", "part", "loss", "method"], (*MEASURES, "off"))
    gains = minus(seen, "gapo", OTHERS, tuple(MEASURES), ["where", "part", "loss"])
    return {
        "spectrum": [_beside(row, paper.CURVATURE, row["method"]) for row in spectrum],
        "gapo_minus": [_beside(row, PAPER_GAIN, row["method"]) for row in gains],
    }


PAPER_GAIN = {
    name: {other: round(figures["gapo"] - figures[other], 1) for other in OTHERS}
    for name, figures in paper.CURVATURE.items()
}


def _beside(row: Row, figures: dict[str, dict[str, float]], method: str) -> Row:
    """The paper's are of the head and of each method's own loss."""
    theirs = (row["part"], row["loss"]) == (HEAD, OWN)
    return {**row, **{f"paper_{name}": column[method] if theirs else None for name, column in figures.items()}}


def findings(found: Tables) -> list[str]:
    return [
        _order(where(found["spectrum"], part=HEAD, loss=OWN), "On the LM head, each method by its own loss,"),
        _order(where(found["spectrum"], part=HEAD, loss=COMMON), "With SimPO's loss for all, on the LM head,"),
        _order(where(found["spectrum"], part=EVERY, loss=COMMON), "With SimPO's loss for all, on every parameter,"),
    ]


def _order(rows: Rows, opening: str) -> str:
    known = sorted((row for row in rows if number(row["lambda_max"]) is not None), key=lambda row: row["lambda_max"])
    if not known:
        return f"{opening} nothing was measured."
    told = [f"{method_name(row['method'])} ({plain(row['lambda_max'])})" for row in known]
    return f"{opening} lambda_max rises in this order: {listed(told)}."


def claims(found: Tables) -> list[Claim]:
    rows = {other: first(found["gapo_minus"], part=HEAD, loss=OWN, method=other) for other in OTHERS}
    return [
        Claim(
            f"GAPO minus {method_name(other)}: {words}",
            kept_as(row, name),
            PAPER_GAIN[name][other],
            upward=PAPER_GAIN[name][other] > 0,
            reason=REASON,
            kind=PLAIN,
        )
        for other, row in rows.items()
        for name, words in MEASURES.items()
    ]


PLACE = Column("where", "Hessian of", WORDS)
OURS = [Column(name, words, PLAIN) for name, words in MEASURES.items()]
BESIDE = tuple(c for ours in OURS for c in (ours, Column(f"paper_{ours.key}", f"paper: {ours.head}", QUOTED)))
CURVATURE = Study(
    name="curvature",
    title="Sharpness after training",
    question="Does GAPO end where the loss is flatter than where DPO and SimPO end?",
    grid=lambda scale: [Cell(method) for method in (*OTHERS, "gapo")],
    observe=spectra,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper's are of a large model's LM head and each method's own loss; levels depend on model, "
    "betas and pairs, so only the order of methods and the signs of differences can be compared. Ours: Lanczos on 64 "
    "held-out pairs for the head and 16 for every parameter, other pairs for each seed and the same for every method; "
    "the anchor's and the start model's log-probs count as constants. `SimPO's` is one loss for all, at default knobs.",
    exhibits=(
        Dots("lambda_max", "spectrum", "Largest eigenvalue of the loss Hessian", OURS[0], NAME, PLACE, log=True),
        Sheet("spectrum", "Ends of the spectrum", (PLACE, NAME, *BESIDE)),
        Sheet("gapo_minus", "GAPO minus each method, on the same seeds and pairs", (PLACE, NAME, *BESIDE)),
    ),
)
