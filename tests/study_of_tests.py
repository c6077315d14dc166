"""A study small enough to be trained in a test, and the scale it is trained at."""

from __future__ import annotations

from dataclasses import replace

from gapo.studies.exhibits import METHOD, PLAIN, Cloud, Column, Curves, Dots, Histogram, Sheet
from gapo.studies.grid import Cell
from gapo.studies.scale import MINI
from gapo.studies.seeds import summarised
from gapo.studies.study import Study

SHORT = {"data.limit": 8, "data.eval_limit": 4, "train.per_device_train_batch_size": 4}
SCALE = replace(MINI, changes={**MINI.changes, **SHORT}, seeds=1)
START = Cell("simpo", labels={"what": "start"}, trained=False)
NOT_RUN = {"peak_bytes": None}


def look(run) -> list[dict]:
    """The steps and the loss of a run; of a start model that it is one; and a file for a run that comes after."""
    (run.folder / "note.txt").write_text("seen")
    steps = [line["step"] for line in run.steps]
    return [
        {
            "steps": len(steps),
            "accuracy": run.evals.get("after", {}).get("accuracy"),
            "lr": run.recipe["train"]["learning_rate"],
        }
    ]


def grid(scale):
    gapo = Cell("gapo", labels={"what": "trained"})
    later = Cell("dpo", {"data.train": "{after}/pairs.jsonl"}, {"what": "later"}, after=gapo)
    return [START, later, gapo]


def tables(rows):
    return {"steps": summarised(rows, ["what", "method"], ("steps", "accuracy"))}


NAME, STEPS = Column("method", "method", METHOD), Column("steps", "steps", PLAIN)
TINY = Study(
    name="tiny",
    title="A study of tests",
    question="Does it run?",
    grid=grid,
    observe=look,
    tables=tables,
    findings=lambda found: ["It runs."],
    differs="Nothing.",
    exhibits=(
        Sheet("steps", "Steps", (NAME, STEPS)),
        Dots("dots", "steps", "Steps", STEPS, NAME),
        Curves("curves", "steps", "Steps", STEPS, Column("accuracy", "accuracy"), NAME),
        Cloud("cloud", "steps", "Steps", STEPS, STEPS, NAME),
        Histogram("histogram", "steps", "Steps", STEPS),
    ),
)
TRAINED_ONLY = replace(TINY, grid=lambda scale: [START, Cell("gapo", labels={"what": "trained"})])
