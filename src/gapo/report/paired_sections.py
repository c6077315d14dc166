"""The parts of a comparison that look at the same pairs under several runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapo.diagnostics.tables import column
from gapo.report import figures
from gapo.report.elements import Section, figure, paragraph, table, together
from gapo.report.explorer import explorer
from gapo.report.markup import Markup, tag
from gapo.report.pair_view import PairColumn, PairText, PairView, Value
from gapo.report.paired import Beside, Outcomes, beside, outcomes_of
from gapo.report.run_files import Run
from gapo.report.run_pairs import rounded, texts_of, within_budget
from gapo.report.statistics import Numbers, spearman
from gapo.report.tables import Table
from gapo.report.wording import NONE, counted, percent, points_interval, signed

PAIRS_SHOWN, RUNS_SHOWN, SUBSETS_SHOWN = 5_000, 8, 40
HOW = (
    "Differences are paired: taken pair by pair on the held-out pairs that both runs were measured on, each by its own "
    "reward. Intervals (Newcombe's, for proportions of the same pairs) cover the choice of pairs, not the seed: each "
    "row is one run."
)
UNPAIRED = (
    "The intervals cover the choice of held-out pairs, not the seed: each row is one run. {who} no record of how each "
    "held-out pair came out (held_out.parquet), so the interval of that difference takes the runs as independent, "
    "which is wider than need be."
)


def how_compared(runs: Sequence[Run], names: Sequence[str]) -> str:
    """Whether the differences are paired, and if not, because of whom."""
    without = [name for run, name in zip(runs, names, strict=True) if outcomes_of(run) is None]
    if not without:
        return HOW
    who = f"{without[0]} has" if len(without) == 1 else f"{len(without)} of the runs have"
    return UNPAIRED.format(who=who)


def same_pairs(runs: Sequence[Run], names: Sequence[str]) -> tuple[Section, ...]:
    """Which pairs make the difference; nothing where fewer than two runs kept a record, or their pairs differ."""
    known = [(name, found) for run, name in zip(runs, names, strict=True) if (found := outcomes_of(run)) is not None]
    if len(known) < 2 or known[0][0] != names[0]:
        return ()
    first, base = known[0]
    others = [(name, both) for name, found in known[1:] if (both := beside(found, base)) is not None]
    if not others:
        return ()
    parts = together(
        table(_disagreements(others, first), caption="Held-out pairs, right or wrong"),
        _subsets(others, first),
        paragraph(
            "Below, every held-out pair: filter by who is right to read the pairs that make the difference.", "soft"
        ),
        explorer(_view([first, *(name for name, _ in others)], base, [both.ours for _, both in others], runs)),
    )
    return (Section("same", "The same pairs", parts),)


def _disagreements(others: Sequence[tuple[str, Beside]], first: str) -> Table:
    header = ("run", "pairs", "both right", "only this run", f"only {first}", "both wrong", f"points above {first}")
    rows = tuple((name, *_counts(both), shown_change(both)) for name, both in others)
    return Table(header, rows)


def _counts(both: Beside) -> tuple[str, ...]:
    ours, base = both.only_ours, both.only_base
    right = (both.ours.right() == 1) & (both.base.right() == 1)
    rest = len(both.ours) - int(right.sum() + ours.sum() + base.sum())
    return tuple(f"{count:,}" for count in (len(both.ours), right.sum(), ours.sum(), base.sum(), rest))


def shown_change(both: Beside) -> str:
    """Points and their paired interval."""
    found = both.change
    return f"{signed(100 * found.value)} ({points_interval(found.interval)})"


def _subsets(others: Sequence[tuple[str, Beside]], first: str) -> Markup | None:
    names = sorted({str(name) for _, both in others for name in both.ours.subsets if name})
    if not names:
        return None
    rows = []
    for subset in names[:SUBSETS_SHOWN]:
        parts = [(name, both.of_subset(subset)) for name, both in others]
        _, start = parts[0]
        cells = [f"{len(start.ours):,}", percent(float(start.base.right().mean())) if len(start.base) else NONE]
        for _, both in parts:
            known = len(both.ours) > 0
            cells += [percent(float(both.ours.right().mean())) if known else NONE]
            cells += [shown_change(both) if known else NONE]
        rows.append((subset, *cells))
    heads = [head for name, _ in others for head in (name, f"points above {first}")]
    left = len(names) - SUBSETS_SHOWN
    more = paragraph(f"{left} more subsets are not shown.", "soft") if left > 0 else None
    caption = "Reward accuracy by subset"
    return together(table(Table(("subset", "pairs", first, *heads), tuple(rows)), caption=caption), more)


def _view(names: Sequence[str], base: Outcomes, others: Sequence[Outcomes], runs: Sequence[Run]) -> PairView:
    """A column of gains and one of rights for each run, on the pairs all of them have."""
    shown = [base, *others][:RUNS_SHOWN]
    places = [{name: place for place, name in enumerate(found.ids)} for found in shown]
    common = [name for name in base.ids if all(name in place for place in places)]
    notes = []
    if len(common) > PAIRS_SHOWN:
        keep = np.sort(np.random.default_rng(0).choice(len(common), PAIRS_SHOWN, replace=False))
        notes.append(f"{PAIRS_SHOWN:,} of {len(common):,} pairs are shown: a random sample.")
        common = [common[i] for i in keep]
    if len(others) + 1 > RUNS_SHOWN:
        notes.append(f"The explorer shows the first {RUNS_SHOWN} runs.")
    found = [each.take(np.array([place[name] for name in common])) for each, place in zip(shown, places, strict=True)]
    rights = [each.right() for each in found]
    columns = [_agreement(rights)]
    for number, (name, each, right) in enumerate(zip(names, found, rights, strict=False)):
        marks: list[Value] = [bool(mark == 1) for mark in right]
        columns.append(PairColumn(f"right_{number}", f"{name} right", "truth", marks, "its reward prefers the chosen"))
        gain = rounded(each.columns["gain_after"])
        columns.append(PairColumn(f"gain_{number}", f"{name} gain", "number", gain, "reward of chosen minus rejected"))
    for side in ("chosen", "rejected"):
        tokens = rounded(found[0].columns[f"{side}_tokens"])
        columns.append(PairColumn(f"{side}_tokens", f"{side} tokens", "number", tokens))
    if any(found[0].subsets):
        columns.append(PairColumn("subset", "subset", "word", [name or None for name in found[0].subsets]))
    kept = next((texts for run in runs if (texts := texts_of(run.folder, common, held_out=True))), {})
    rows, _ = within_budget([kept.get(name) for name in common], found[0].columns["gain_after"])
    if not kept:
        notes.append("None of the runs kept the texts of the held-out pairs; ids lead to the data.")
    return PairView(
        ids=[str(name) for name in common],
        columns=columns,
        texts=[PairText(*row[:3]) if row else None for row in rows] if kept else (),
        colours=["same", *(["subset"] if any(found[0].subsets) else [])],
        across="gain_0",
        up="gain_1",
        notes=notes,
    )


def _agreement(rights: Sequence[Numbers]) -> PairColumn:
    same: list[Value] = [len(set(marks)) == 1 for marks in zip(*rights, strict=True)]
    return PairColumn("same", "runs agree", "truth", same, "whether all runs are right, or all wrong")


def same_weights(runs: Sequence[Run], names: Sequence[str]) -> tuple[Section, ...]:
    """Whether the runs trust the same training pairs."""
    weights = [_last_weights(run) for run in runs]
    drawn, rows = [], []
    for place, (name, found) in enumerate(zip(names[1:], weights[1:], strict=True), start=1):
        both = sorted(found.keys() & weights[0].keys())
        if len(both) < 4:
            continue
        mine, theirs = np.array([found[pair] for pair in both]), np.array([weights[0][pair] for pair in both])
        value = spearman(theirs, mine)
        shown = NONE if value is None else f"{value[0]:.2f}".replace("-", "\u2212")
        ends = NONE if value is None else f"{value[1].low:.2f} to {value[1].high:.2f}".replace("-", "\u2212")
        rows.append((name, f"{len(both):,}", shown, ends))
        drawn.append(
            figure(
                figures.weight_against_weight(theirs, mine, place),
                key=f"weights-{place}",
                title=f"Weight in {name}",
                caption=f"Against the weight in {names[0]}: {counted(len(both), 'pair')}, each as last seen.",
            )
        )
    if not rows:
        return ()
    header = ("run", "pairs", f"Spearman with {names[0]}", "95\u00a0% interval")
    content = together(
        paragraph(
            "A correlation near 1 means that the runs trust the same pairs; near 0, that they have nothing in "
            "common but the data."
        ),
        table(Table(header, tuple(rows)), caption="Weights of the same training pairs"),
        tag("div", drawn, class_="grid"),
    )
    return (Section("weights", "Weights of the same pairs", content),)


def _last_weights(run: Run) -> dict[str, float]:
    if run.pairs is None:
        return {}
    step, weight = column(run.pairs, "step"), column(run.pairs, "weight")
    order = np.argsort(step, kind="stable")
    ids = run.pairs["pair_id"].to_pylist()
    return {ids[i]: float(weight[i]) for i in order if np.isfinite(weight[i])}
