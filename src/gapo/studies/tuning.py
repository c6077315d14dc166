"""Each method gets the same small grid: three learning rates times three settings of its own knobs."""

from __future__ import annotations

import json
from math import sqrt

from gapo.studies.columns import DRIFT, NAME, WIN
from gapo.studies.exhibits import PLAIN, WORDS, Column, Dots, Sheet
from gapo.studies.grid import Cell
from gapo.studies.knobs import BASE_RATES, FACTORS, KNOBS
from gapo.studies.names import method_name
from gapo.studies.outcome import outcome
from gapo.studies.rows import Row, Rows, Tables, grouped
from gapo.studies.scale import Scale
from gapo.studies.seeds import summarised
from gapo.studies.sentences import listed, percent
from gapo.studies.study import Study

BY = ["method", "learning_rate", "knobs"]


def grid(scale: Scale) -> list[Cell]:
    """Training prompts are held out and keep their true labels; of the others' labels 20 % are wrong."""
    split = {**scale.validation, "noise.rate": 0.2}
    return [
        Cell(
            method,
            {**split, "train.learning_rate": rate, **{f"objective.{knob}": value for knob, value in knobs.items()}},
            {"learning_rate": rate, "knobs": json.dumps(knobs)},
        )
        for method, settings in KNOBS.items()
        for rate in (BASE_RATES[scale.name] * factor for factor in FACTORS)
        for knobs in settings
    ]


def tables(rows: Rows) -> Tables:
    """A setting with a run that stopped is not chosen."""
    safe = [group for group in grouped(rows, BY).values() if not any("stopped" in row for row in group)]
    tried = summarised([row for group in safe for row in group], BY, ("accuracy", "pairs", "win_rate", "drift"))
    return {"chosen": [best_of(group) for group in grouped(tried, ["method"]).values()], "tried": tried}


def best_of(tried: Rows, errors: float = 1.0) -> Row:
    """Of the settings within standard errors of the best the gentlest: the smallest learning rate moves least."""
    top = max(tried, key=lambda row: row["accuracy"])
    error = sqrt(top["accuracy"] * (1 - top["accuracy"]) / (top["pairs"] * top["seeds"]))
    near = [row for row in tried if row["accuracy"] >= top["accuracy"] - errors * error]
    best = max(near, key=lambda row: (-row["learning_rate"], row["accuracy"]))
    rates = sorted({row["learning_rate"] for row in tried})
    at_edge = best["learning_rate"] in (rates[0], rates[-1]) and len(rates) > 1
    worst = min(row["accuracy"] for row in tried)
    return {**best, "worst": worst, "tried": len(tried), "edge": "yes" if at_edge else "no"}


def findings(found: Tables) -> list[str]:
    chosen = found["chosen"]
    spread = max(chosen, key=lambda row: row["accuracy"] - row["worst"])
    edge = [method_name(row["method"]) for row in chosen if row["edge"] == "yes"]
    counts = sorted({row["tried"] for row in chosen})
    return [
        f"{len(chosen)} methods were tuned over {listed([str(count) for count in counts])} settings each.",
        f"Tuning matters most for {method_name(spread['method'])}: {percent(spread['worst'])} at its worst setting, "
        f"{percent(spread['accuracy'])} at its best.",
        f"The chosen learning rate lies at an end of the grid for {listed(edge)}."
        if edge
        else "No chosen learning rate lies at an end of the grid.",
    ]


RATE, KNOB = Column("learning_rate", "learning rate", PLAIN), Column("knobs", "knobs", WORDS)
VALIDATION, WORST = Column("accuracy", "validation accuracy"), Column("worst", "its worst setting")
TUNING = Study(
    name="tuning",
    title="Knobs and learning rate of every method",
    question="Which learning rate and knobs serve each method best on a validation split of the training prompts?",
    grid=grid,
    observe=outcome,
    tables=tables,
    findings=findings,
    seeds=2,
    first_seed=100,  # none of the seeds of the other studies
    differs="The paper tunes GAPO for each model and takes the baselines' knobs from SimPO's paper. Here every method "
    "gets nine settings, tried at 20 % random flips, and is judged by the accuracy of its own reward on clean pairs "
    "whose prompts are held out of the training pairs; of settings within a standard error of the best the one with "
    "the smallest learning rate is taken. All other studies use `chosen.csv`; SimPO+SAM uses SimPO's.",
    exhibits=(
        Sheet("chosen", "Chosen", (NAME, RATE, KNOB, VALIDATION, WORST, Column("edge", "rate at an end", WORDS))),
        Dots("chosen", "chosen", "Validation accuracy at the chosen setting", VALIDATION, NAME),
        Sheet("tried", "All that was tried", (NAME, RATE, KNOB, VALIDATION, WIN, DRIFT)),
    ),
)
