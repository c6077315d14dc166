"""The paper's ablations: radius, anchor batch, scope, strategy, and two controls that use no anchor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapo.studies.exhibits import PLAIN, POINTS, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows, Tables, first, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, ranking
from gapo.studies.study import Claim, Study

RADIUS, BATCH, SCOPE, STRATEGY, CONTROL = "radius", "anchor batch", "scope", "strategy", "control"
# the paper's setting of each knob, which is GAPO as it is everywhere else; AlpacaEval 2 win rates, controls LC
PAPER = {
    **{(RADIUS, setting): win for setting, win in (("0.025", 0.379), ("0.05", 0.387), ("0.075", 0.373), ("0.1", 0.37))},
    **{(BATCH, setting): win for setting, win in (("1x", 0.357), ("4x", 0.372), ("8x", 0.387), ("16x", 0.365))},
    **{(SCOPE, setting): win for setting, win in (("LM head", 0.207), ("every parameter", 0.237))},
    **{(CONTROL, name): win for name, win in (("GAPO", 0.357), ("SimPO", 0.321))},
    **{(CONTROL, name): win for name, win in (("SimPO+SAM", 0.349), ("GradNorm-Reweight", 0.335))},
}
BY, MEASURES = ["knob", "setting"], ("win_rate", "lc_win_rate", "accuracy", "skill", "drift")
USUAL = {RADIUS: "0.05", BATCH: "16x", SCOPE: "every parameter", STRATEGY: "batch-wise", CONTROL: "GAPO"}


def grid(scale: Scale) -> list[Cell]:
    """Every knob with its usual setting among the others, so that each group can be read alone."""
    sixteen = {"train.per_device_train_batch_size": scale.step_pairs // 16, "train.gradient_accumulation_steps": 16}
    radii = [_cell(RADIUS, f"{radius:g}", {"anchor.radius": radius}) for radius in (0.025, 0.05, 0.075, 0.1)]
    batches = [_cell(BATCH, f"{count}x", {**sixteen, "anchor.batches": count}) for count in (1, 4, 8)]
    return [
        *radii,
        *batches,
        _cell(BATCH, "16x"),  # the whole step, however it is cut
        _cell(SCOPE, "LM head", {"anchor.scope": "lm_head"}),
        _cell(SCOPE, "every parameter"),
        _cell(STRATEGY, "batch-wise"),
        _cell(STRATEGY, "instance-wise", {"anchor.strategy": "instance"}),
        _cell(CONTROL, "GAPO"),
        _cell(CONTROL, "SimPO", method="simpo"),
        _cell(CONTROL, "SimPO+SAM", {"train.sam_radius": 0.05}, method="simpo"),
        _cell(CONTROL, "GradNorm-Reweight", method="gradnorm"),
    ]


def _cell(knob: str, setting: str, changes: Mapping[str, Any] = {}, method: str = "gapo") -> Cell:  # noqa: B006
    return Cell(method, changes, {"knob": knob, "setting": setting})


def tables(rows: Rows) -> Tables:
    settings = with_paper(summarised(rows, BY, MEASURES), BY, paper=PAPER)
    return {"settings": [{**row, **_against_usual(rows, row["knob"], row["setting"])} for row in settings]}


def _against_usual(rows: Rows, knob: str, setting: str) -> dict[str, object]:
    """The change from the usual setting, seed by seed; none for the usual one."""
    here = where(rows, knob=knob)
    found = paired(where(here, setting=setting), where(here, setting=USUAL[knob]), "lc_win_rate")
    return columns_of("change", found if setting != USUAL[knob] else None)


def findings(found: Tables) -> list[str]:
    def against(knob: str, setting: str) -> str:
        row = first(found["settings"], knob=knob, setting=setting)
        return compared(setting, f"the usual {USUAL[knob]}", kept_as(row, "change"), "length-controlled win rate")

    radii = where(found["settings"], knob=RADIUS)
    return [
        ranking(radii, "lc_win_rate", "length-controlled win rate over the radii", "setting"),
        against(CONTROL, "SimPO+SAM"),
        against(CONTROL, "GradNorm-Reweight"),
    ]


def claims(found: Tables) -> list[Claim]:
    reason = (
        "where weights hardly differ between pairs, what sets them cannot matter; `confounds` measures their spread"
    )
    asked = [(RADIUS, "0.025"), (RADIUS, "0.1"), (BATCH, "1x"), (BATCH, "8x"), (SCOPE, "LM head")]
    asked += [(CONTROL, "SimPO"), (CONTROL, "SimPO+SAM"), (CONTROL, "GradNorm-Reweight")]
    return [
        Claim(
            f"{knob} {setting} minus {USUAL[knob]}",
            kept_as(first(found["settings"], knob=knob, setting=setting), "change"),
            paper := PAPER[knob, setting] - PAPER[knob, USUAL[knob]],
            upward=paper > 0,
            reason=reason,
        )
        for knob, setting in asked
    ]


KNOB, SETTING = Column("knob", "knob", WORDS), Column("setting", "setting", WORDS)
ABLATIONS = Study(
    name="ablations",
    title="What of GAPO matters",
    question="How much do radius, anchor batch, scope and strategy matter, and do controls without an anchor do as well?",
    grid=grid,
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper's figures are AlpacaEval 2 win rates of Mistral-7B (scope: Llama-3-8B; controls: length-"
    "controlled). Its multipliers count micro-batches of unknown size in a step of 128 pairs; ours cut a step into "
    "sixteen, so 16x is the whole step, and is the usual setting of the other studies. All other knobs stay as tuned.",
    exhibits=(
        Dots("settings", "settings", "LC win rate", Column("lc_win_rate", "LC win rate"), SETTING, KNOB),
        Sheet(
            "settings",
            "Every setting",
            (
                KNOB,
                SETTING,
                Column("lc_win_rate", "LC win rate"),
                Column("paper", "paper: AlpacaEval 2"),
                Column("change", "LC win rate minus the usual setting's, points", POINTS),
                Column("win_rate", "win rate"),
                Column("accuracy", "reward accuracy"),
                Column("skill", "skill kept"),
                Column("drift", "drift", PLAIN),
            ),
        ),
    ),
)
