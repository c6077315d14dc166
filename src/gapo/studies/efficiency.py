"""The paper's wall-clock comparison: what SimPO reaches in the time GAPO takes, and what each engine costs."""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.columns import ACCURACY, LC
from gapo.studies.exhibits import PLAIN, POINTS, RATIO, SECONDS, WORDS, Column, Points, Sheet
from gapo.studies.grid import Cell
from gapo.studies.outcome import outcome
from gapo.studies.rows import Row, Rows, Tables, first, number, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, plain
from gapo.studies.study import Claim, Study

ONE, TWO = "SimPO, 1 epoch", "SimPO, 2 epochs"
ENGINES = ("two_pass", "bank", "first_order", "streaming")
MEASURES = ("seconds", "step_ms", "peak_mb", "accuracy", "lc_win_rate")
REASON = "GAPO's win rate differs much between seeds at its tuned learning rate; more seeds would tell"


def grid(scale: Scale) -> list[Cell]:
    """Every run alone on the machine; all variants of one seed before the next seed, so that they alternate."""
    steps = scale.changes.get("train.max_steps")
    twice = {"train.max_steps": 2 * steps} if steps else {"train.num_train_epochs": 2}
    return [
        Cell("simpo", {}, {"variant": ONE}, timed=True),
        Cell("simpo", twice, {"variant": TWO}, timed=True),
        *(Cell("gapo", {"anchor.engine": engine}, {"variant": f"GAPO {engine}"}, timed=True) for engine in ENGINES),
    ]


def tables(rows: Rows) -> Tables:
    rows = [_with_units(row) for row in rows]
    variants = [{**row, **_beside_simpo(rows, row["variant"])} for row in summarised(rows, ["variant"], MEASURES)]
    figures = {"paper_lc": paper.WALL_CLOCK_LC, "paper_time": paper.WALL_CLOCK_TIME}
    return {"variants": with_paper(variants, ["variant"], **figures)}


def _with_units(row: Row) -> Row:
    seconds, steps, peak = (number(row.get(key)) for key in ("seconds", "steps", "peak_bytes"))
    step_ms = 1000 * seconds / steps if seconds and steps else None
    return {**row, "step_ms": step_ms, "peak_mb": peak / 2**20 if peak else None}


def _beside_simpo(rows: Rows, variant: str) -> Row:
    """Time against one epoch of SimPO, results against two, on the same seeds."""
    here, one, two = (where(rows, variant=name) for name in (variant, ONE, TWO))
    time = paired(here, one, "seconds", ratio=True) if variant != ONE else None
    gains = [paired(here, two, name) if variant != TWO else None for name in ("accuracy", "lc_win_rate")]
    return {**columns_of("time", time), **columns_of("gain", gains[0]), **columns_of("lc_gain", gains[1])}


def findings(found: Tables) -> list[str]:
    ratios = [(engine, first(found["variants"], variant=f"GAPO {engine}")) for engine in ENGINES]
    told = ", ".join(f"{engine} {plain(row['time'])}" for engine, row in ratios if row is not None and row["time"])
    exact = first(found["variants"], variant="GAPO bank")
    return [
        f"Beside one epoch of SimPO, an epoch of GAPO takes this many times as long: {told or 'not measured'}.",
        compared("GAPO (bank)", "two epochs of SimPO", kept_as(exact, "gain"), "reward accuracy"),
        compared("GAPO (bank)", "two epochs of SimPO", kept_as(exact, "lc_gain"), "length-controlled win rate"),
    ]


def claims(found: Tables) -> list[Claim]:
    gain = kept_as(first(found["variants"], variant="GAPO two_pass"), "lc_gain")
    return [Claim("One epoch of GAPO minus two of SimPO: LC win rate", gain, 0.027, reason=REASON)]


VARIANT, TIME = Column("variant", "variant", WORDS), Column("seconds", "training time", SECONDS)
RATIOS = (Column("time", "x one SimPO epoch", RATIO), Column("paper_time", "paper: x one SimPO epoch", RATIO))
GAIN = Column("gain", "accuracy minus two SimPO epochs', points", POINTS)
COSTS = (Column("step_ms", "ms a step", PLAIN), Column("peak_mb", "peak memory, MiB", PLAIN))
EFFICIENCY = Study(
    name="efficiency",
    title="Accuracy against wall-clock",
    question="Does GAPO reach more than SimPO does in the same time?",
    grid=grid,
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper times Mistral-7B on two B200, with a second gradient for the anchor, as `two_pass` does here. "
    "Ours is a tiny model on a CPU, where fixed costs of a step weigh more; `results/bench` times SmolLM2-135M. "
    "Seconds are those of training alone; memory is the peak of the whole process, libraries and evaluation included.",
    exhibits=(
        Points("time", "variants", "Accuracy against training time", TIME, ACCURACY, VARIANT),
        Sheet(
            "variants",
            "Every variant",
            (VARIANT, TIME, *RATIOS, ACCURACY, GAIN, LC, Column("paper_lc", "paper: LC"), *COSTS),
        ),
    ),
)
