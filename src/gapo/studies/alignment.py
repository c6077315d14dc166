"""Tables 1 and 2 of the paper in the lab: win rates against the start model, and a skill nobody trained."""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.columns import ACCURACY, DRIFT, LC, LENGTH, NAME, SKILL, WIN, in_points
from gapo.studies.exhibits import POINTS, Column, Dots, Points, Sheet
from gapo.studies.grid import Cell
from gapo.studies.names import method_name
from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows, Tables, first, with_paper
from gapo.studies.seeds import minus, summarised
from gapo.studies.sentences import compared, kept_as, ranking
from gapo.studies.study import Claim, Study

MEASURES = ("lc_win_rate", "win_rate", "accuracy", "skill", "drift", "reply_tokens")
PAPER_GAIN = {method: round(paper.ALPACA_LC["gapo"] - paper.ALPACA_LC[method], 3) for method in paper.METHODS}
REASON = (
    "GAPO's weights are nearly equal in the lab (the gap is small beside 1/beta), so it follows the mean margin; the "
    "radii in `ablations` test this"
)
DRIFTS = (
    "GAPO's loss does not flatten as margins grow, so it moves further; its smaller learning rates in `tuning` tell"
)


def tables(rows: Rows) -> Tables:
    figures = {"paper_lc": paper.ALPACA_LC, "paper_win": paper.ALPACA_WIN, "paper_gsm8k": paper.GSM8K}
    others = [method for method in paper.METHODS if method != "gapo"]
    gains = minus(rows, "gapo", others, ("lc_win_rate", "accuracy", "skill"))
    return {
        "methods": with_paper(summarised(rows, ["method"], MEASURES), ["method"], **figures),
        "gapo_minus": with_paper(gains, ["method"], paper=PAPER_GAIN),
    }


def findings(found: Tables) -> list[str]:
    against_simpo = kept_as(first(found["gapo_minus"], method="simpo"), "lc_win_rate")
    return [
        ranking(found["methods"], "lc_win_rate", "length-controlled win rate"),
        compared("gapo", "simpo", against_simpo, "length-controlled win rate"),
        ranking(found["methods"], "skill", "the skill that was kept"),
    ]


def claims(found: Tables) -> list[Claim]:
    rows = {method: first(found["gapo_minus"], method=method) for method in ("simpo", "dpo", "alpha_dpo")}
    won = [
        Claim(
            f"GAPO minus {method_name(method)}: LC win rate",
            kept_as(row, "lc_win_rate"),
            PAPER_GAIN[method],
            reason=REASON,
        )
        for method, row in rows.items()
    ]
    kept = round(paper.GSM8K["gapo"] - paper.GSM8K["simpo"], 3)
    return [*won, Claim("GAPO minus SimPO: skill kept", kept_as(rows["simpo"], "skill"), kept, reason=DRIFTS)]


METHODS_SHEET = (
    NAME,
    *(LC, Column("paper_lc", "paper: LC"), WIN, Column("paper_win", "paper: win rate")),
    *(SKILL, Column("paper_gsm8k", "paper: GSM8k"), ACCURACY, DRIFT, LENGTH),
)
MINUS_SHEET = (NAME, in_points(LC), Column("paper", "paper: LC", POINTS), in_points(ACCURACY), in_points(SKILL))
ALIGNMENT = Study(
    name="alignment",
    title="Win rates against the start model, and what is forgotten",
    question="Does GAPO align better than the methods it is compared with, and does it keep other skills?",
    grid=lambda scale: [Cell(method) for method in paper.METHODS],
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper's win rates are GPT-4's verdicts against GPT-4 Turbo on 805 prompts; ours are by true quality "
    "against the start model, which wins one half against itself. Its skill is GSM8k, ours small sums. Levels cannot "
    "be compared, differences between methods can. Labels are clean.",
    exhibits=(
        Dots("win_rates", "methods", "Length-controlled win rate against the start model", LC, NAME),
        Sheet("methods", "Every method", METHODS_SHEET),
        Sheet("gapo_minus", "GAPO minus each method, on the same seeds, in points", MINUS_SHEET),
        Points("win_rate_and_skill", "methods", "What is won and what is kept", SKILL, LC, NAME),
    ),
)
