"""The paper's wall-clock comparison: what SimPO reaches in the time GAPO takes, and what each engine costs."""

from __future__ import annotations

from gapo.studies.exhibits import PERCENT, PLAIN, POINTS, RATIO, SECONDS, WORDS, Column, Points, Sheet
from gapo.studies.grid import Cell
from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows, Tables, first, where, with_paper
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, paired, summarised
from gapo.studies.sentences import compared, kept_as, plain
from gapo.studies.study import Claim, Study

ONE, TWO = "SimPO, 1 epoch", "SimPO, 2 epochs"
ENGINES = ("two_pass", "bank", "first_order", "streaming")
PAPER_LC = {ONE: 0.321, TWO: 0.330, "GAPO two_pass": 0.357}
PAPER_TIME = {ONE: 1.0, TWO: 2.0, "GAPO two_pass": 2.0}
MEASURES = ("seconds", "step_ms", "peak_mb", "accuracy", "lc_win_rate", "win_rate", "skill")


def grid(scale: Scale) -> list[Cell]:
    """Every run alone on the machine; one seed of all variants before the next seed, so that they alternate."""
    twice = (
        {"train.max_steps": 2 * scale.changes["train.max_steps"]}
        if "train.max_steps" in scale.changes
        else {"train.num_train_epochs": 2}
    )
    simpo = [
        Cell("simpo", {}, {"variant": ONE}, timed=True),
        Cell("simpo", twice, {"variant": TWO}, timed=True),
    ]
    return [
        *simpo,
        *(Cell("gapo", {"anchor.engine": engine}, {"variant": f"GAPO {engine}"}, timed=True) for engine in ENGINES),
    ]


def tables(rows: Rows) -> Tables:
    rows = [_with_units(row) for row in rows if "stopped" not in row]
    variants = with_paper(
        summarised(rows, ["variant"], MEASURES), ["variant"], paper_lc=PAPER_LC, paper_time=PAPER_TIME
    )
    return {"variants": [{**row, **_beside_simpo(rows, row["variant"])} for row in variants]}


def _with_units(row: dict[str, object]) -> dict[str, object]:
    seconds, steps, peak = (float(row[key] or "nan") for key in ("seconds", "steps", "peak_bytes"))  # type: ignore[arg-type]
    return {**row, "step_ms": 1000 * seconds / steps, "peak_mb": peak / 2**20}


def _beside_simpo(rows: Rows, variant: str) -> dict[str, object]:
    """Time against one epoch of SimPO, accuracy against two, on the same seeds."""
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
    row = first(found["variants"], variant="GAPO two_pass")
    reason = "the lab's SimPO is far from having learnt all it can in one epoch; more pairs would tell"
    return [Claim("One epoch of GAPO minus two of SimPO, LC win rate", kept_as(row, "lc_gain"), 0.027, reason=reason)]


VARIANT, ACCURACY = Column("variant", "variant", WORDS), Column("accuracy", "reward accuracy", PERCENT)
EFFICIENCY = Study(
    name="efficiency",
    title="Accuracy against wall-clock",
    question="Does GAPO reach more than SimPO does in the same time?",
    grid=grid,
    observe=outcome,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="The paper times Mistral-7B on two B200 with an anchor computed by a second gradient, as `two_pass` does "
    "here. Ours is a tiny model on a CPU, where fixed costs of a step weigh more; `results/bench` times SmolLM2-135M. "
    "Seconds are those of training alone; memory is the peak of the whole process, libraries and evaluation included.",
    exhibits=(
        Points(
            "time", "variants", "Accuracy against time", Column("seconds", "training, s", SECONDS), ACCURACY, VARIANT
        ),
        Sheet(
            "variants",
            "Every variant",
            (
                VARIANT,
                Column("seconds", "training, s", SECONDS),
                Column("step_ms", "ms a step", PLAIN),
                Column("time", "x one SimPO epoch", RATIO),
                Column("paper_time", "paper: x one SimPO epoch", RATIO),
                ACCURACY,
                Column("gain", "accuracy minus two SimPO epochs', points", POINTS),
                Column("lc_win_rate", "LC win rate"),
                Column("paper_lc", "paper: LC"),
                Column("peak_mb", "peak memory, MiB", PLAIN),
            ),
        ),
    ),
)
