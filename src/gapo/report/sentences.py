"""The findings in words: what came out, how sure it is, and what to be careful with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gapo.report import results
from gapo.report.figures import SELF_CHECK_BAND
from gapo.report.pair_weights import CLEAN, FLIPPED, LatePairs, Tier, flipped_against_clean
from gapo.report.paired import change_between, change_in
from gapo.report.run_files import Run
from gapo.report.statistics import Interval, Numbers
from gapo.report.wording import (
    counted,
    listed,
    percent,
    percent_interval,
    plain,
    points,
    points_interval,
    rounded_percent,
)

MOSTLY_SELF = 0.7  # of the gap


def result_sentence(run: Run) -> str:
    """The run in one or two sentences, as far as it is known."""
    before, after = results.accuracy(run, "before"), results.accuracy(run, "after")
    in_steps = f" in {counted(run.step_count(), 'step')}" if run.steps else ""
    noise = _noise_clause(run)
    if after is None:
        why = "there is no evals.json" if run.evals is None else "evals.json holds no accuracy after training"
        seen = f"{counted(run.step_count(), 'step')} recorded" if run.steps else "no step recorded"
        return f"{run.objective}: no result yet, because {why}; {seen}{noise}."
    pairs = _held_out(run, clean=bool(noise))
    if before is None:
        return f"{run.objective} reached a reward accuracy of {percent(after.value)}{pairs}{in_steps}{noise}."
    verb = "lowered" if after.value < before.value else "took"
    ends = f"from {percent(before.value)} to {percent(after.value)}"
    return f"{run.objective} {verb} reward accuracy{pairs} {ends}{in_steps}{noise}.{_doubt(run)}"


def _held_out(run: Run, *, clean: bool) -> str:
    count = results.held_out_pairs(run)
    kind = "clean held-out pair" if clean else "held-out pair"
    if (run.evals or {}).get("held_out") is False:
        kind = "training pair"
    return f" on {counted(count, kind)}" if count else f" on {kind}s"


def _noise_clause(run: Run) -> str:
    share = results.flip_share(run)
    return f"; {rounded_percent(share)} of the training labels were flipped" if share else ""


def _doubt(run: Run) -> str:
    gain = change_in(run)
    if gain is None or gain.interval is None or not gain.interval.holds(0):
        return ""
    ends = points_interval(gain.interval)
    return f" The change, {points(gain.value)}, has zero within its 95\u00a0% interval ({ends}): it may be chance."


def comparison_sentence(runs: Sequence[Run], names: Sequence[str]) -> str:
    """The later runs against the first, for or against, and open where the interval leaves it open."""
    base = results.accuracy(runs[0], "after")
    if base is None:
        return f"There is nothing to compare with: {names[0]} has no accuracy after training."
    gains = {name: change_between(run, runs[0]) for run, name in zip(runs[1:], names[1:], strict=True)}
    if len(gains) == 1:
        [(name, gain)] = gains.items()
        return _one_against_one(name, gain, names[0], base)
    groups: dict[str, list[str]] = {}
    for name, gain in gains.items():
        shown = name if gain is None else f"{name} ({points(gain.value)})"
        groups.setdefault(verdict(gain), []).append(shown)
    parts = [f"{listed(members)} {_does(len(members), kind)}" for kind, members in groups.items()]
    return f"Against {names[0]} ({percent(base.value)} reward accuracy), {'; '.join(parts)}."


def verdict(gain: results.Rate | None) -> str:
    """`higher`, `lower`, `open` (the interval of the difference holds zero), `unsure` (no interval) or `unknown`."""
    if gain is None:
        return "unknown"
    if gain.interval is None:
        return "unsure"
    if gain.interval.holds(0):
        return "open"
    return "higher" if gain.value > 0 else "lower"


def _does(count: int, kind: str) -> str:
    plural = count > 1
    return {
        "higher": "are clearly higher" if plural else "is clearly higher",
        "lower": "are clearly lower" if plural else "is clearly lower",
        "open": "cannot be told from it, the difference being within the interval",
        "unsure": "differ by amounts without an interval" if plural else "differs by an amount without an interval",
        "unknown": "have no result" if plural else "has no result",
    }[kind]


def _one_against_one(name: str, gain: results.Rate | None, first: str, base: results.Rate) -> str:
    if gain is None:
        return f"{name} has no accuracy after training, so it cannot be compared with {first}."
    side = "above" if gain.value > 0 else "below"
    size = points(abs(gain.value)).lstrip("+")
    reached = percent(base.value + gain.value)
    start = f"{name} reached {reached} reward accuracy, {size} {side} {first} ({percent(base.value)})"
    if gain.interval is None:
        return f"{start}; without intervals in the results nobody can say whether that is more than chance."
    interval = f"95\u00a0% interval of the difference {points_interval(gain.interval)} points"
    kind = verdict(gain)
    if kind == "open":
        return f"{start}. That is within the interval, so these runs do not tell the two apart ({interval})."
    return f"{start}: a difference {'for' if kind == 'higher' else 'against'} {name}, beyond chance ({interval})."


def weight_sentence(pairs: LatePairs) -> str:
    """Mean weight of clean and flipped pairs at the end of training, and whether they differ."""
    clean, flipped = pairs.weights(CLEAN), pairs.weights(FLIPPED)
    if len(clean) + len(flipped) == 0:
        return "Which labels are flipped is not known in this run, so clean and flipped pairs cannot be set apart."
    if len(flipped) == 0 or len(clean) == 0:
        return (
            f"Every pair whose label is known is {'clean' if len(clean) else 'flipped'}: there is nothing to set apart."
        )
    start = (
        f"Over steps {pairs.first_step} to {pairs.last_step}, the mean weight "
        f"of the {counted(len(clean), 'clean pair')} was {plain(float(clean.mean()))}, "
        f"of the {counted(len(flipped), 'flipped pair')} {plain(float(flipped.mean()))}"
    )
    found = flipped_against_clean(pairs)
    if found is None:
        return f"{start}: too few to compare."
    change, interval = found
    if interval.holds(0):
        ends = f"{percent(interval.low)} to {percent(interval.high)}"
        open_end = f"has zero within its 95\u00a0% interval ({ends}): the weights do not tell them apart"
        return f"{start}. The relative difference, {percent(change)}, {open_end}."
    kind, reach = ("less", Interval(-interval.high, -interval.low)) if change < 0 else ("more", interval)
    return f"{start}: flipped pairs weigh {percent(abs(change))} {kind} (95\u00a0% interval {percent_interval(reach)})."


def tier_sentence(tiers: Sequence[Tier]) -> str:
    """Where the flipped labels sit."""
    bottom, _, top = tiers
    overall = sum(tier.flipped for tier in tiers) / sum(tier.pairs for tier in tiers)
    return (
        f"Of the fifth of the pairs with the least weight {percent(bottom.rate)} are flipped, "
        f"of the fifth with the most {percent(top.rate)}; of all pairs {percent(overall)}."
    )


def length_sentence(found: tuple[float, Interval] | None, pairs: int) -> str:
    """How far the weight is a matter of length."""
    if found is None:
        return "Too few different lengths or weights to correlate."
    value, interval = found
    size = abs(value)
    strength = "hardly" if size < 0.1 else "weakly" if size < 0.4 else "clearly" if size < 0.7 else "largely"
    shown = f"{value:.2f} (95\u00a0% interval {interval.low:.2f} to {interval.high:.2f}, {counted(pairs, 'pair')})"
    return f"Spearman correlation {shown}: the weight goes {strength} with length.".replace("-", "\u2212")


def self_share_sentence(shares: Mapping[str, Numbers]) -> str:
    """Late in training: what the gap measures."""
    share, low, high = (float(shares[name][-1]) for name in ("pooled", "low", "high"))
    spread = f"half of the pairs between {percent(low)} and {percent(high)}"
    start = f"At the end of training a pair's own share of the direction made {percent(share)} of the gap ({spread})"
    if share < MOSTLY_SELF:
        return f"{start}: the other pairs of the step had a say in how brittle a pair looked."
    pull = ", and the other pairs of the step pulled against it" if share > 1 else ""
    return f"{start}: a pair was mostly measured against itself{pull}. A larger batch for the anchor lowers the share."


def cautions(run: Run) -> list[str]:
    """What to be careful with: the run's own warnings, what could not be read, and what the curves show."""
    told = (run.evals or {}).get("warnings")
    own = [str(warning) for warning in told] if isinstance(told, list) else []
    return [*own, *run.problems, *(_from_curves(run.steps) if run.steps else [])]


def _from_curves(steps: Mapping[str, Numbers]) -> list[str]:
    found = []
    if "self_check_ratio" in steps:
        ratio = steps["self_check_ratio"][np.isfinite(steps["self_check_ratio"])]
        outside = int(np.sum((ratio < SELF_CHECK_BAND[0]) | (ratio > SELF_CHECK_BAND[1])))
        if outside:
            share = f"{outside} of {counted(len(ratio), 'step')}"
            found.append(
                f"The self-check ratio left its band of 0.8 to 1.25 in {share}: gaps of those steps are doubtful."
            )
    return found
