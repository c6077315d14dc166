"""The page of one run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from gapo.report import figures, results, sentences, tables
from gapo.report.elements import (
    Panel,
    Section,
    cards,
    document,
    figure,
    missing,
    paragraph,
    table,
    together,
    with_care,
)
from gapo.report.evals_section import evals_section
from gapo.report.markup import Markup, tag
from gapo.report.pair_sections import clean_and_flipped, length, pairs, self_share
from gapo.report.pair_weights import LatePairs, flipped_against_clean, late_pairs
from gapo.report.paired import change_in
from gapo.report.replies_section import replies_section
from gapo.report.run_files import Run, number
from gapo.report.smoothing import Columns, smoothing_window, thinned
from gapo.report.wording import counted, duration, flattened, percent, percent_interval, plain, signed

CURVES = (
    Panel("loss", "Loss", "It should fall and level off; a jump marks a step to look at.", ("loss",), figures.loss),
    Panel(
        "margin",
        "Margin and accuracy",
        "Both on the training pairs as labelled, flipped ones too: the held-out accuracy above is the result.",
        ("margin",),
        figures.margin_and_accuracy,
    ),
    Panel("gap", "Gap", "Mean of a step's pairs, one standard deviation around it.", ("gap_mean",), figures.gap),
    Panel(
        "weight",
        "Weight",
        "Mean of a step's pairs, from least to most: a wide band means that pairs are really treated differently.",
        ("weight_mean",),
        figures.weight,
    ),
    Panel(
        "logps",
        "Log-probs",
        "The chosen side should not sink with the rejected one.",
        ("chosen_logp",),
        figures.log_probs,
    ),
    Panel(
        "drift",
        "Drift",
        "Distance from the start model on a few fixed pairs; it should level off.",
        ("drift",),
        figures.drift,
    ),
    Panel(
        "check",
        "Self-check ratio",
        "Mean gap over radius times gradient norm; outside the band, 0.8 to 1.25, the gap is not the slope's.",
        ("self_check_ratio",),
        figures.self_check,
    ),
    Panel(
        "norm", "Gradient norm", "Before clipping; spikes mark unstable steps.", ("grad_norm",), figures.gradient_norm
    ),
    Panel("speed", "Speed", "A dip is the machine, not the method.", ("tokens_per_second",), figures.speed),
)


def run_page(run: Run, *, growing: bool = False) -> str:
    """Everything the run left behind, the result first; without the explorer while it grows."""
    late = late_pairs(run.pairs) if run.pairs is not None else None
    head = together(
        paragraph(_kicker(run), "kicker"),
        tag("h1", run.name),
        paragraph(sentences.result_sentence(run), "lead"),
        with_care(sentences.cautions(run)),
        cards(_key_numbers(run, late)),
    )
    sections = (
        Section("result", "Result", _result(run)),
        *evals_section(run),
        Section("curves", "Curves", _curves(run)),
        Section("flipped", "Clean and flipped pairs", clean_and_flipped(run, late)),
        Section("length", "Weight and length", length(late)),
        *self_share(run),
        Section("pairs", "Pairs", pairs(run, late, growing=growing)),
        Section("replies", "Replies", replies_section(run)),
        Section("recipe", "Recipe", tag("pre", run.recipe_text.strip(), tabindex=0)),
        Section("environment", "Environment", _environment(run)),
        Section("again", "Run it again", _command(run)),
    )
    return document(f"{run.name} \u2013 gapo run", head, sections)


def _kicker(run: Run) -> str:
    model = run.recipe.get("model")
    name = model.get("name") if isinstance(model, Mapping) else model
    return " \u00b7 ".join(["gapo run", run.objective, *([name] if isinstance(name, str) else [])])


def _key_numbers(run: Run, late: LatePairs | None) -> list[tuple[str, str, str]]:
    after, before = results.accuracy(run, "after"), results.accuracy(run, "before")
    gain = change_in(run)
    items = []
    if after:
        interval = f"95\u00a0% interval {percent_interval(after.interval)}" if after.interval else "no interval given"
        items.append(("reward accuracy", percent(after.value), interval))
    if gain and before:
        items.append(("change", signed(100 * gain.value), f"percentage points, from {percent(before.value)}"))
    for name, title, note in (
        ("margin", "margin", "held-out pairs, after"),
        ("win_rate", "win rate", "against the start model"),
        ("lc_win_rate", "win rate", "length-controlled"),
        ("skill_kept", "skill kept", _start_skill(run)),
        ("drift", "drift", "from the start model"),
    ):
        value = results.after(run, name)
        if value is not None:
            items.append((title, percent(value) if name in tables.SHARES else plain(value, 3), note))
    found = flipped_against_clean(late) if late else None
    if found:
        items.append(
            ("flipped pairs weigh", percent(abs(found[0])), f"{'less' if found[0] < 0 else 'more'} than clean")
        )
    if run.steps:
        items.append(("steps", f"{run.step_count():,}", duration(results.seconds(run)).replace("\u2013", "recorded")))
    return items


def _start_skill(run: Run) -> str:
    start = number(results.section(run, "measures").get("start_skill"))
    return "right answers" if start is None else f"start model {percent(start)}"


def _result(run: Run) -> Markup:
    if run.evals is None:
        return paragraph("There is no evals.json in this run: it was not evaluated, or not yet.")
    rows = tables.result_table(run)
    if not rows.rows:
        return paragraph("evals.json holds no measures.")
    count = results.held_out_pairs(run)
    where = f"Before and after training, {counted(count, 'held-out pair')}" if count else "Before and after training"
    return table(rows, caption=where)


def _curves(run: Run) -> Markup:
    if run.steps is None:
        return paragraph("There is no steps.jsonl with steps in this run, so there are no curves.")
    steps = thinned(run.steps)
    window = smoothing_window(len(steps["step"]))
    per_point = run.step_count() / len(steps["step"])
    notes = [f"Thin: each step. Thick: running mean over {window} steps."] if window > 1 else []
    notes = [f"Each point stands for about {per_point:.0f} steps."] if per_point > 1 else notes
    return together(
        (paragraph(note, "soft") for note in notes), tag("div", (_panel(p, run, steps) for p in CURVES), class_="grid")
    )


def _panel(panel: Panel, run: Run, steps: Columns) -> Markup:
    if absent := [name for name in panel.needs if name not in steps]:
        why = f"steps.jsonl has no {absent[0]}; {run.objective} does not compute it, or it was not recorded."
        return missing(panel.title, why)
    return figure(panel.draw(steps), key=panel.key, title=panel.title, caption=panel.caption)


def _environment(run: Run) -> Markup:
    if run.environment is None:
        return paragraph("There is no readable environment.json in this run: versions and machine are not known.")
    known = {key: value for key, value in run.environment.items() if key != "command"}
    decided = {key: (run.evals or {}).get(key) for key in ("layout", "engine")}  # at the start, by what was there
    known |= {key: value for key, value in decided.items() if value}
    rows = tuple(flattened(known).items())
    return table(tables.Table(("what", "value"), rows), caption="What the run was made with", kind="words")


def _command(run: Run) -> Markup:
    command = (run.environment or {}).get("command")
    if isinstance(command, list) and command:
        command = shlex.join(str(part) for part in command)
    known = isinstance(command, str) and bool(command)
    given = (paragraph("It was run by:"), tag("pre", str(command), class_="command")) if known else None
    first = paragraph("The command was not recorded; the recipe above holds every setting.") if not known else given
    return together(
        first,
        paragraph("This run alone, in a new folder, from the recipe in its own:"),
        tag("pre", _again(run), class_="command"),
    )


def _again(run: Run) -> str:
    return shlex.join(["gapo", "train", f"{run.name}/recipe.yaml", f"train.output_dir={run.name}-again"])
