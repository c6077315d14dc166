"""A bench from start to end: memory, speed, growth, and after every part the files one looks at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.bench.arithmetic import Spread
from gapo.bench.growth import curves, measure_growth
from gapo.bench.memory import measured_memory
from gapo.bench.records import Lines
from gapo.bench.setting import Setting, Workload, workload
from gapo.bench.speed import check_repetitions, set_up
from gapo.bench.summary import environment_facts, growth_facts, setting_facts, summarised
from gapo.bench.tables import shown_label, table
from gapo.bench.variants import Variant, all_variants, auto_first, chosen_variants
from gapo.errors import InputError
from gapo.storage import whole_file

Say = Callable[[str], None]
FORMAT = 1  # of summary.json: one that another version wrote is begun anew


@dataclass(frozen=True)
class Results:
    """The folder of a bench. Parts may be run apart; the summary always tells of all that is there."""

    folder: Path

    def lines(self, name: str) -> Lines:
        return Lines(self.folder / f"{name}.jsonl")

    def summary(self) -> dict[str, Any]:
        path = self.folder / "summary.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return found if found.get("format") == FORMAT else {}

    def write(self, **parts: Any) -> None:
        """Replace these parts of the summary, then table and figures from the whole."""
        summary = {"format": FORMAT} | self.summary() | parts
        for name, text in (("summary.json", json.dumps(summary, indent=1) + "\n"), ("table.md", table(summary))):
            with whole_file(self.folder / name) as part:
                part.write_text(text)
        self._draw(summary)

    def _draw(self, summary: dict[str, Any]) -> None:
        from gapo.bench import figures
        from gapo.report.svg import svg_file

        drawings = {}
        rows = [row for row in summary.get("variants", []) if row.get("seconds_per_pair")]
        if rows:
            ours = {name for name, variant in all_variants().items() if variant.ours}
            drawn = [_bar(row, row["name"] in ours) for row in rows]
            drawings["figure"] = (figures.bars(drawn, _title(summary["setting"])), "Seconds per pair of every variant")
        if summary.get("growth"):
            drawn_curves = curves(self.lines("growth").read())
            drawings["growth"] = (figures.growth(drawn_curves), "Growth of the seconds per pair")
        for name, (figure, label) in drawings.items():
            with whole_file(self.folder / f"{name}.svg") as part:
                part.write_text(svg_file(figure, key=name, label=label))


def run_bench(
    setting: Setting,
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    repetitions: int = 5,
    speed: bool = True,
    memory: bool = True,
    growth: bool = False,
    quick: bool = False,
    say: Say = print,
) -> Results:
    """Run the parts asked for."""
    check_repetitions(repetitions)
    results = Results(folder)
    if speed or memory:
        variants, work = chosen_variants(names, say), workload(setting)
        facts = {"setting": setting_facts(setting, work), "environment": environment_facts()}
        _begin(results, facts, speed)
        if memory:  # first, while this process is still small
            _memory(variants, setting, results.lines("memory"), say)
        told = _speed(variants, work, setting, results, facts, repetitions, say) if speed else _told(results)
        _sum_up(results, facts, told)
    if growth:
        measure_growth(results.lines("growth").begin(), say, precision=setting.precision, quick=quick)
        results.write(growth=growth_facts(results.lines("growth").read()))
    return results


def _begin(results: Results, facts: dict[str, Any], speed: bool) -> None:
    """New files: memory of another day must not stand beside these seconds, nor seconds of another setting."""
    last = results.summary()
    results.lines("memory").begin()
    if speed or any(last.get(part) != facts[part] for part in facts):
        results.lines("raw").begin()


def _sum_up(results: Results, facts: dict[str, Any], told: dict[str, dict[str, Any]]) -> None:
    labels = {variant.name: variant.label for variant in all_variants().values()}
    raw, memory = results.lines("raw").read(), results.lines("memory").read()
    results.write(**facts, **summarised(facts["setting"], labels, told, raw, memory))


def _told(results: Results) -> dict[str, dict[str, Any]]:
    """What setting the variants up told when they were timed."""
    kept = ("engine", "same_as", "row_tokens")
    rows = results.summary().get("variants", [])
    return {row["name"]: {key: row[key] for key in kept if key in row} for row in rows}


def _memory(variants: Sequence[Variant], setting: Setting, lines: Lines, say: Say) -> None:
    for variant in auto_first(variants):
        try:
            found = measured_memory(variant.name, setting)
        except InputError as error:
            say(str(error))
            continue
        lines.add(variant=variant.name, **found)
        say(f"memory      {variant.name:<18} {found['peak_bytes'] / 2**30:.2f} GiB at the peak")


def _speed(
    variants: Sequence[Variant],
    work: Workload,
    setting: Setting,
    results: Results,
    facts: dict[str, Any],
    repetitions: int,
    say: Say,
) -> dict[str, dict[str, Any]]:
    """The timed part; what setting the variants up told is given back."""
    with ExitStack() as stack:
        bench = set_up(variants, work, setting, stack, say)
        bench.measure(repetitions, results.lines("raw"), say, lambda: _sum_up(results, facts, bench.facts))
        return bench.facts


def _bar(row: dict[str, Any], ours: bool) -> Any:
    from gapo.bench.figures import Bar

    against = row["against_trl_simpo"]
    note = f"{against['value']:.2f} x TRL SimPO" if against and row["name"] != "trl-simpo" else ""
    return Bar(shown_label(row), Spread(**row["seconds_per_pair"]), ours, note)


def _title(setting: dict[str, Any]) -> str:
    return f"{setting['model']}, {setting['precision']}, {setting['pairs']} pairs of {setting['data']}"
