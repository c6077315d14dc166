"""`table.md`: the summary as a person reads it, misses as plain as hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gapo.bench.growth import MODEL

FEW = 5  # repetitions a median with a spread should rest on
NOTES = (
    "Every variant takes the same optimiser step (get the micro-batches, forward, backward, clip, AdamW) through its "
    "own trainer; the learning rate is 0, so the work is the same each time. Order alternates between repetitions.",
    "Tokens count the prompt of a pair once, for every variant, so that rows can be compared.",
    "Share of peak: useful arithmetic (2 FLOP a weight and token, prompt once, head on response positions only, causal "
    "attention, times 3 for backward) over the time, over the machine's matrix-multiply rate measured right before. "
    "The numerator is the same for all variants, so GAPO's extra passes count as overhead.",
    "DPO: ours computes the reference's log-probs once, before the first step, and keeps them; that is not timed. "
    "TRL's default keeps a second model and runs it in every step; that is.",
    "GAPO takes one anchor for the whole step.",
    "Consensus judged at the start: the pass that judges the step's pairs is timed with it, as in a run of one epoch; "
    "with more epochs it is paid once. Judged running, the step's gradient comes with the judging.",
    "TRL gets the text of our token ids and tokenises it itself; gradient checkpointing, its default, is off, as ours.",
    "Peak memory is that of a process of its own with its libraries, after a warm-up and one step.",
)


def shown_label(row: Mapping[str, Any]) -> str:
    """A variant's name, with the engine it came to and how that keeps gradients where that is not said by the name."""
    label, engine = str(row["label"]), str(row.get("engine") or "")
    own = label.rpartition(" ")[2]
    if engine.startswith(own):
        return f"{label}{engine.removeprefix(own)}"
    return f"{label}: {engine}" if engine else label


def table(summary: Mapping[str, Any]) -> str:
    """The whole file, as far as there is something to tell."""
    parts = ["# Bench", *_speed(summary)] if "setting" in summary else ["# Bench"]
    return "\n\n".join([*parts, *_growth(summary.get("growth") or [])]) + "\n"


def _speed(summary: Mapping[str, Any]) -> list[str]:
    setting, variants = summary["setting"], summary["variants"]
    parts = [_measured(setting, summary["environment"]), _variants(variants)]
    differing = [_row_tokens(row, setting) for row in variants if row.get("row_tokens", 0) != 0]
    notes = [*NOTES, *(text for text in differing if text)]
    if summary["repetitions"] < FEW:
        notes.append(f"Only {summary['repetitions']} repetitions: too few for a result.")
    return [
        *parts,
        "Against what we set out to reach (ratio of medians; in brackets the least and greatest of the repetitions):",
        _targets(summary["targets"], {row["name"]: row["label"] for row in variants}),
        "\n".join(f"- {note}" for note in notes),
    ]


def _measured(setting: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    return (
        f"{setting['model']} ({setting['parameters'] / 1e6:.4g} M parameters), {setting['precision']}, "
        f"{setting['pairs']} pairs of {setting['data']} in one step of {setting['accumulation']} micro-batches of "
        f"{setting['micro_batch']}: {setting['tokens']:,} tokens with each prompt once, {setting['row_tokens']:,} in "
        f"two rows a pair, {setting['response_tokens']:,} of them responses, the longest row {setting['longest_row']}. "
        f"{machine['cpu']}, {machine['threads']} threads; torch {machine['torch']}, "
        f"transformers {machine['transformers']}, TRL {machine['trl'] or 'not installed'}, gapo {machine['gapo']}."
    )


def _variants(rows: Sequence[Mapping[str, Any]]) -> str:
    header = ("variant", "seconds per pair", "tokens per second", "peak memory", "share of peak", "against TRL SimPO")
    return _markdown(
        header,
        (
            (
                shown_label(row),
                shown(row.get("seconds_per_pair")),
                shown(row.get("tokens_per_second"), ".0f"),
                f"{row['peak_bytes'] / 2**30:.2f} GiB" if row.get("peak_bytes") else "–",
                shown(row.get("share_of_peak"), ".0%"),
                shown(row.get("against_trl_simpo"), ".2f"),
            )
            for row in rows
        ),
    )


def _targets(rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    def words(row: Mapping[str, Any]) -> str:
        top = labels.get(row["top"], row["top"])
        if row["bottom"] is None:
            return f"{top}, share of matrix-multiply peak"
        kind = "peak memory" if row["kind"] == "memory" else "time"
        return f"{top} / {labels.get(row['bottom'], row['bottom'])}, {kind}"

    header = ("what", "target", "measured", "")
    cells = (
        (
            words(row),
            f"{'at most' if row['bottom'] else 'at least'} {row['limit']:.2f}",
            shown(row["found"], ".2f"),
            row["verdict"],
        )
        for row in rows
    )
    return _markdown(header, cells)


def _growth(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    cells = (
        (
            row["axis"],
            f"{row['x'][0]:,.0f} to {row['x'][-1]:,.0f}",
            f"{row['parameters'] / 1e6:.2g} M" if row["axis"] != MODEL else "each",
            row["variant"],
            "–" if row["exponent"] is None else f"{row['exponent']:.2f}",
            "–" if row["standard_error"] is None else f"{row['standard_error']:.2f}",
        )
        for row in rows
    )
    said = (
        "How seconds per pair grow: exponent of a power law fitted on both logarithms. Random Llamas (of the size "
        "given; the model axis ends at SmolLM2-135M's shape) on random tokens, lengths of 32 where they do not grow."
    )
    return ["## Growth", said, _markdown(("axis", "range", "model", "variant", "exponent", "standard error"), cells)]


def _row_tokens(row: Mapping[str, Any], setting: Mapping[str, Any]) -> str | None:
    if row["row_tokens"] == setting["row_tokens"]:
        return None
    return f"{row['label']}'s own tokenisation has {row['row_tokens']:,} tokens, ours {setting['row_tokens']:,}."


def shown(found: Mapping[str, float] | None, digits: str = ".3g") -> str:
    """Value, and in brackets the least and greatest where they differ from it."""
    if found is None:
        return "–"
    value, low, high = (format(found[key], digits) for key in ("value", "low", "high"))
    return value if low == high == value else f"{value} ({low} to {high})"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
