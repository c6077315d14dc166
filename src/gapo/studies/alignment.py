"""Tables 1 and 2 of the paper in the lab: win rates against the start model, and a skill nobody trained."""

from __future__ import annotations

from gapo.studies.exhibits import METHOD, PLAIN, POINTS, Column, Dots, Points, Sheet
from gapo.studies.grid import Cell
from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows, Tables, first, where, with_paper
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, ranking
from gapo.studies.study import Claim, Study

METHODS = ("gapo", "simpo", "dpo", "ipo", "cpo", "kto", "orpo", "rdpo", "alpha_dpo")
# Mistral-Instruct 7B: AlpacaEval 2 length-controlled and raw, GSM8k
LC = dict(zip(METHODS, (0.357, 0.321, 0.268, 0.203, 0.238, 0.245, 0.245, 0.273, 0.323), strict=True))
RAW = dict(zip(METHODS, (0.387, 0.348, 0.249, 0.203, 0.288, 0.236, 0.249, 0.245, 0.326), strict=True))
GSM8K = {"gapo": 0.403, "simpo": 0.366, "dpo": 0.418, "rdpo": 0.426, "alpha_dpo": 0.293}
MEASURES = ("lc_win_rate", "win_rate", "accuracy", "skill", "drift", "reply_tokens")


def tables(rows: Rows) -> Tables:
    methods = with_paper(
        summarised(rows, ["method"], MEASURES), ["method"], paper_lc=LC, paper_win=RAW, paper_gsm8k=GSM8K
    )
    return {"methods": methods, "gapo_minus": [_minus(rows, method) for method in METHODS if method != "gapo"]}


def _minus(rows: Rows, method: str) -> dict[str, object]:
    """GAPO minus a method, seed by seed."""
    ours, theirs = where(rows, method="gapo"), where(rows, method=method)
    differences = [columns_of(name, paired(ours, theirs, name)) for name in ("lc_win_rate", "accuracy", "skill")]
    found = {key: value for columns in differences for key, value in columns.items()}
    return {"method": method, **found, "paper": round(LC["gapo"] - LC[method], 3), "seeds": len(ours)}


def findings(found: Tables) -> list[str]:
    against_simpo = kept_as(first(found["gapo_minus"], method="simpo"), "lc_win_rate")
    return [
        ranking(found["methods"], "lc_win_rate", "length-controlled win rate"),
        compared("gapo", "simpo", against_simpo, "length-controlled win rate"),
        ranking(found["methods"], "skill", "the skill that was kept"),
    ]


def claims(found: Tables) -> list[Claim]:
    reason = (
        "GAPO's weights are nearly equal in the lab (the gap is small beside 1/beta), so it follows the mean margin; "
        "larger radii in `ablations` test this"
    )
    rows = {method: first(found["gapo_minus"], method=method) for method in ("simpo", "dpo", "alpha_dpo")}
    won = [
        Claim(
            f"GAPO's length-controlled win rate minus {method}'s",
            kept_as(row, "lc_win_rate"),
            LC["gapo"] - LC[method],
            reason=reason,
        )
        for method, row in rows.items()
    ]
    kept = Claim("GAPO's skill kept minus simpo's (GSM8k)", kept_as(rows["simpo"], "skill"), 0.037, reason=reason)
    return [*won, kept]


ALIGNMENT = Study(
    name="alignment",
    title="Win rates against the start model, and what is forgotten",
    question="Does GAPO align better than the methods it is compared with, and does it keep other skills?",
    grid=lambda scale: [Cell(method) for method in METHODS],
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper's win rates are GPT-4's verdicts against GPT-4 Turbo on 805 prompts; ours are by true quality "
    "against the start model, which wins one half against itself. Its skill is GSM8k, ours small sums. Levels cannot "
    "be compared, differences between methods can. Labels are clean.",
    exhibits=(
        Dots(
            "win_rates",
            "methods",
            "Length-controlled win rate against the start model",
            Column("lc_win_rate", "length-controlled win rate"),
            Column("method", "method", METHOD),
        ),
        Sheet(
            "methods",
            "Every method",
            (
                Column("method", "method", METHOD),
                Column("lc_win_rate", "LC win rate"),
                Column("paper_lc", "paper: LC"),
                Column("win_rate", "win rate"),
                Column("paper_win", "paper: win rate"),
                Column("skill", "skill kept"),
                Column("paper_gsm8k", "paper: GSM8k"),
                Column("accuracy", "reward accuracy"),
                Column("drift", "drift, nats a token", PLAIN),
                Column("reply_tokens", "words a reply", PLAIN),
            ),
        ),
        Sheet(
            "gapo_minus",
            "GAPO minus each method, on the same seeds, in points",
            (
                Column("method", "method", METHOD),
                Column("lc_win_rate", "LC win rate", POINTS),
                Column("paper", "paper: LC", POINTS),
                Column("accuracy", "reward accuracy", POINTS),
                Column("skill", "skill kept", POINTS),
            ),
        ),
        Points(
            "win_rate_and_skill",
            "methods",
            "What is won and what is kept",
            Column("skill", "share of sums still right"),
            Column("lc_win_rate", "length-controlled win rate"),
            Column("method", "method", METHOD),
        ),
    ),
)
