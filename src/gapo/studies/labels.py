"""Ours, not the paper's: when, and in how large a model, the other pairs tell wrong labels."""

from __future__ import annotations

from math import log10

from gapo.studies.consensus_tables import NOISY
from gapo.studies.exhibits import PLAIN, SHARE, WORDS, Column, Curves, Sheet
from gapo.studies.grid import Cell
from gapo.studies.labels_looks import GRADIENTS, MARGIN, STATES, told_over_training
from gapo.studies.mechanism import STEPS
from gapo.studies.rows import Row, Rows, Tables, first, where
from gapo.studies.scale import Scale
from gapo.studies.seeds import summarised
from gapo.studies.sentences import listed, percent, plain
from gapo.studies.study import Study


def grid(scale: Scale) -> list[Cell]:
    """SimPO with a share of wrong labels, its model kept every quarter; and start models of several sizes."""
    steps = scale.changes.get("train.max_steps", STEPS)
    saves = {"train.save_strategy": "steps", "train.save_steps": steps // 4, "data.limit": steps * scale.step_pairs}
    return [
        *(Cell("simpo", {"noise.kind": "random", "noise.rate": rate, **saves}, {"rate": rate}) for rate in NOISY),
        Cell("simpo", labels={"model": "start"}, trained=False, apart="sizes"),
    ]


def tables(rows: Rows) -> Tables:
    sizes = summarised(where(rows, what="size"), ["rate", "signal", "width"], ("weights", "loss", "area"))
    moments = summarised(where(rows, what="moment"), ["rate", "epoch", "signal"], ("area", "estimated"))
    ordered = sorted(moments, key=lambda row: (row["rate"], row["signal"], row["epoch"]))
    return {
        "moments": [{**row, "labels": _flipped(row)} for row in ordered],
        "sizes": sorted((_on_a_line(row) for row in sizes), key=lambda row: (row["rate"], row["signal"], row["width"])),
    }


def _on_a_line(row: Row) -> Row:
    """A model has the same number of weights at every seed."""
    kept = {key: value for key, value in row.items() if key not in ("weights_low", "weights_high")}
    sizes = {"millions": row["weights"] / 1e6, "log_weights": round(log10(row["weights"]), 3)}
    return {**kept, "labels": _flipped(row), **sizes}


def _flipped(row: Row) -> str:
    return f"{100 * row['rate']:.0f} % flipped"


def findings(found: Tables) -> list[str]:
    return [*(_over_training(found["moments"], rate) for rate in NOISY), _by_size(found["sizes"])]


def _over_training(moments: Rows, rate: float) -> str:
    """Every signal at the start and at the end, and the share that is estimated at the start."""
    names = (STATES, GRADIENTS, MARGIN)
    ends = [[first(moments, rate=rate, epoch=end, signal=name) for end in (0.0, 1.0)] for name in names]
    areas = [[plain(row["area"]) for row in both if row is not None] for both in ends]
    if any(len(both) < 2 for both in areas) or ends[0][0] is None:
        return f"With {100 * rate:.0f} % flipped at random nothing was measured over training."
    said = listed([f"{name} {begin} and {end}" for name, (begin, end) in zip(names, areas, strict=True)])
    return (
        f"With {100 * rate:.0f} % flipped at random areas under ROC before and after training are: {said}; the share "
        f"estimated at the start, by states, is {percent(ends[0][0]['estimated'])}."
    )


def _by_size(sizes: Rows) -> str:
    known = where(sizes, rate=NOISY[0], signal=STATES)
    if not known:
        return "Models of other sizes were not looked at."
    return (
        f"From {known[0]['weights']:,.0f} to {known[-1]['weights']:,.0f} weights the area of states goes from "
        f"{plain(known[0]['area'])} to {plain(known[-1]['area'])} with {100 * NOISY[0]:.0f} % flipped."
    )


AREA, RATE = Column("area", "area under ROC", PLAIN), Column("rate", "share of labels flipped", SHARE)
LABELLED = Column("labels", "labels", WORDS)
EPOCH, SIGNAL = Column("epoch", "share of the epoch", SHARE), Column("signal", "found by", WORDS)
WEIGHTS, LOG = Column("millions", "million weights", PLAIN), Column("log_weights", "weights, log10", PLAIN)
LABELS = Study(
    name="labels",
    title="When, and in how large a model, wrong labels are told",
    question="Does the direction of the other pairs tell wrong labels better after training, and in a larger model?",
    grid=grid,
    observe=told_over_training,
    tables=tables,
    findings=findings,
    differs="Not in the paper. SimPO trains on 2,048 pairs with a share of them flipped; the start model and those "
    "kept at each quarter judge all pairs: by states or gradients and the others', all directions alike; by margin. "
    "Sizes are start models trained from nothing as the lab's own was, labels turned later; a seed sets them too.",
    exhibits=(
        Curves("over_training", "moments", "Wrong labels found as training goes on", EPOCH, AREA, SIGNAL, LABELLED),
        Sheet("moments", "Over training", (RATE, SIGNAL, EPOCH, AREA, Column("estimated", "estimated share"))),
        Curves("sizes", "sizes", "Wrong labels found in models of several sizes", LOG, AREA, SIGNAL, LABELLED),
        Sheet("sizes", "By the size of the model", (RATE, SIGNAL, Column("width", "width", PLAIN), WEIGHTS, AREA)),
    ),
)
