"""The paper's ablations: radius, anchor batch, scope, strategy, and controls that use no anchor."""

from __future__ import annotations

from typing import Any

from gapo.studies import paper
from gapo.studies.columns import ACCURACY, DRIFT, LC, SKILL, WIN
from gapo.studies.exhibits import POINTS, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.outcome import outcome
from gapo.studies.rows import Row, Rows, Tables, first, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, ranking
from gapo.studies.study import Claim, Study

RADIUS, BATCH, SCOPE, STRATEGY, CONTROL = "radius", "anchor batch", "scope", "strategy", "control"
USUAL = {RADIUS: "0.05", BATCH: "16x", SCOPE: "every parameter", STRATEGY: "batch-wise", CONTROL: "GAPO"}
MEASURES = ("lc_win_rate", "win_rate", "accuracy", "skill", "drift")
REASON = "where weights hardly differ between pairs, what sets them cannot matter; `mechanism` measures their spread"


def grid(scale: Scale) -> list[Cell]:
    """Every knob with its usual setting among the others, so that each group can be read alone."""
    cut = {"train.per_device_train_batch_size": scale.step_pairs // 16, "train.gradient_accumulation_steps": 16}
    return [
        *(_cell(RADIUS, f"{radius:g}", {"anchor.radius": radius}) for radius in (0.025, 0.05, 0.075, 0.1)),
        *(_cell(BATCH, f"{count}x", {**cut, "anchor.batches": count}) for count in (1, 4, 8)),
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


def _cell(knob: str, setting: str, changes: dict[str, Any] | None = None, method: str = "gapo") -> Cell:
    return Cell(method, changes or {}, {"knob": knob, "setting": setting})


def tables(rows: Rows) -> Tables:
    settings = summarised(rows, ["knob", "setting"], MEASURES)
    changed = [{**row, **_change(rows, row["knob"], row["setting"])} for row in settings]
    return {"settings": with_paper(changed, ["knob", "setting"], paper=paper.ABLATIONS)}


def _change(rows: Rows, knob: str, setting: str) -> Row:
    """From the usual setting, seed by seed."""
    ours, usual = (where(rows, knob=knob, setting=name) for name in (setting, USUAL[knob]))
    measure = "lc_win_rate" if knob == CONTROL else "win_rate"  # as the paper reports them
    return columns_of("change", paired(ours, usual, measure) if setting != USUAL[knob] else None)


def findings(found: Tables) -> list[str]:
    controls = {
        name: first(found["settings"], knob=CONTROL, setting=name) for name in ("SimPO+SAM", "GradNorm-Reweight")
    }
    return [
        ranking(where(found["settings"], knob=RADIUS), "win_rate", "win rate over the radii", "setting"),
        *(compared(name, "gapo", kept_as(row, "change"), "LC win rate") for name, row in controls.items()),
    ]


def claims(found: Tables) -> list[Claim]:
    rows = [row for row in found["settings"] if row["paper"] and row["setting"] != USUAL[row["knob"]]]
    gains = [round(row["paper"] - paper.ABLATIONS[row["knob"], USUAL[row["knob"]]], 3) for row in rows]
    return [
        Claim(
            f"{row['knob']} {row['setting']} minus {USUAL[row['knob']]}", kept_as(row, "change"), gain, gain > 0, REASON
        )
        for row, gain in zip(rows, gains, strict=True)
    ]


KNOB, SETTING = Column("knob", "knob", WORDS), Column("setting", "setting", WORDS)
CHANGE = Column("change", "minus the usual setting (win rate; controls: LC), points", POINTS)
QUOTED = Column("paper", "paper: AlpacaEval 2")
ABLATIONS = Study(
    name="ablations",
    title="What of GAPO matters",
    question="Do radius, anchor batch, scope and strategy matter, and do controls without an anchor do as well?",
    grid=grid,
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper's figures are AlpacaEval 2 win rates of Mistral-7B (scope: Llama-3-8B; controls: length-"
    "controlled). Its multipliers count micro-batches of unknown size in a step of 128 pairs; ours cut a step into "
    "sixteen, so 16x is the whole step, which the other studies use. All other knobs stay as tuned.",
    exhibits=(
        Dots("settings", "settings", "Length-controlled win rate of every setting", LC, SETTING, KNOB),
        Sheet("settings", "Every setting", (KNOB, SETTING, LC, WIN, QUOTED, CHANGE, ACCURACY, SKILL, DRIFT)),
    ),
)
