"""Why a pair weighs what it weighs, in plain words: one explanation per pair, from its terms and its standing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite

import numpy as np

from gapo.report.pair_view import PairView
from gapo.report.statistics import Numbers
from gapo.report.wording import NARROW, counted, plain

FAR = 0.75  # of the pairs below: large; above: small
MOSTLY_OWN = 0.8  # share of the gap: the pair is measured against itself
BENT = 0.2  # of the gap: curvature worth a word


@dataclass(frozen=True)
class Standing:
    """A number column, and where each pair stands in it."""

    values: Numbers
    ordered: Numbers

    @classmethod
    def of(cls, values: Numbers) -> Standing:
        """NaN is unknown, and stands nowhere."""
        return cls(values, np.sort(values[np.isfinite(values)]))

    def below(self, value: float) -> float:
        """Share of the pairs with less."""
        return float(np.searchsorted(self.ordered, value, "left")) / len(self.ordered)

    def above(self, value: float) -> float:
        """Share of the pairs with more."""
        return 1 - float(np.searchsorted(self.ordered, value, "right")) / len(self.ordered)


@dataclass(frozen=True)
class Facts:
    """What is known of one pair, by column key; an unknown number is None."""

    numbers: Mapping[str, Standing]
    truths: Mapping[str, Sequence[object]]
    row: int
    beta: float | None

    def get(self, key: str) -> float | None:
        """The pair's number."""
        standing = self.numbers.get(key)
        value = float("nan") if standing is None else float(standing.values[self.row])
        return value if isfinite(value) else None

    def high(self, key: str) -> bool:
        """Whether three quarters of the pairs have less."""
        value = self.get(key)
        return value is not None and self.numbers[key].below(value) >= FAR

    def low(self, key: str) -> bool:
        """Whether three quarters of the pairs have more."""
        value = self.get(key)
        return value is not None and self.numbers[key].above(value) >= FAR


def explanations(view: PairView) -> list[str]:
    """An explanation of each pair, in the order of the ids; empty where nothing is known."""
    numbers = {
        column.key: Standing.of(np.array([np.nan if v is None else float(v) for v in column.values]))
        for column in view.columns
        if column.kind == "number"
    }
    truths = {column.key: column.values for column in view.columns if column.kind == "truth"}
    facts = (Facts(numbers, truths, row, view.beta) for row in range(len(view.ids)))
    return [explanation(each) for each in facts]


def explanation(pair: Facts) -> str:
    """The sentences that apply, one after the other."""
    return " ".join(sentence for part in SENTENCES if (sentence := part(pair)))


def standing(place: Standing, value: float) -> str:
    """`less than 93 % of the pairs`, `the most of all 200 pairs`; nothing where there is nothing to compare."""
    pairs, below, above = len(place.ordered), place.below(value), place.above(value)
    if pairs < 2:
        return ""
    if below == above == 0:
        return f", like all {counted(pairs, 'pair')}"
    alone = pairs - 1 - 1e-9
    if above * pairs >= alone or below * pairs >= alone:
        return f", the {'least' if above > below else 'most'} of all {counted(pairs, 'pair')}"
    if max(below, above) < 0.5:
        return ", in the middle of the pairs"
    return f", {'less' if above > below else 'more'} than {_whole_percent(max(below, above))} of the pairs"


def _weight(pair: Facts) -> str:
    weight = pair.get("weight")
    if weight is None:
        return ""
    most = "" if pair.beta is None else f" of at most {plain(pair.beta, 3)}"
    return f"Weight {plain(weight, 3)}{most}{standing(pair.numbers['weight'], weight)}."


def _gap(pair: Facts) -> str:
    gap, margin = pair.get("gap"), pair.get("margin")
    if gap is None:
        return ""
    change = "stays as it is" if gap == 0 else f"{'falls' if gap > 0 else 'rises'} by {plain(abs(gap), 3)}"
    start = f"Its margin {change} at the anchor"
    if margin is None or gap == 0:
        return f"{start}."
    there = margin - gap
    turn = ""
    if margin > 0 > there:
        turn = ": there the model no longer prefers the chosen response"
    elif margin < 0:
        turn = ": the model prefers the rejected response in both places" if there < 0 else ""
    return f"{start}, from {plain(margin, 3)} to {plain(there, 3)}{turn}."


def _share(pair: Facts) -> str:
    """Whose gradient makes the gap: the pair's own, or the others'."""
    own, others, share = pair.get("gap_self"), pair.get("gap_others"), pair.get("self_share")
    if share is None or own is None or others is None or own + others == 0:
        return ""
    if others < 0:
        takes = f"the other pairs take {plain(-others, 3)} off it"
        against = f"Its own gradient gives {plain(own, 3)}{_why_large(pair)}; {takes}"
        return f"{against}: they pull the other way, as they would if its label were wrong."
    if share >= 0.5:
        return f"{_share_percent(share)} of the gap is its own gradient{_why_large(pair)}."
    return f"{_share_percent(1 - share)} of the gap comes from the other pairs, whose gradients point the same way."


def _why_large(pair: Facts) -> str:
    chosen, rejected = pair.get("chosen_tokens"), pair.get("rejected_tokens")
    if pair.high("grad_norm"):
        short = pair.high("length_term") and chosen is not None and rejected is not None
        if not short or chosen is None or rejected is None:
            return ", which is large"
        lengths = f"{plain(chosen)} and {plain(rejected)} tokens"
        if max(chosen, rejected) <= 2 * min(chosen, rejected):
            return f", which is large, as both responses are short ({lengths})"
        name = "chosen" if chosen < rejected else "rejected"
        return f", which is large, as the {name} response is short ({plain(min(chosen, rejected))} tokens)"
    return ", although it is small" if pair.low("grad_norm") else ""


def _bend(pair: Facts) -> str:
    gap, bend = pair.get("gap"), pair.get("curvature")
    if gap is None or bend is None or abs(bend) <= BENT * abs(gap):
        return ""
    return f"A straight line would give {plain(gap + bend, 3)}: the rest is curvature."


def _doubt(pair: Facts) -> str:
    gap, spread = pair.get("gap"), pair.get("gap_spread")
    if gap is None or spread is None or spread < abs(gap) or spread == 0:
        return ""
    return f"Its gap varies by {plain(spread, 3)}, as much as its size: this weight is uncertain."


def _length(pair: Facts) -> str:
    share, others = pair.get("self_share"), pair.get("gap_others")
    if share is None or share < MOSTLY_OWN or (others is not None and others < 0):
        return ""
    if not (pair.low("weight") and pair.high("length_term")):
        return ""
    return "So its length may explain the weight as well as its label does: read it before you drop it."


def _labels(pair: Facts) -> str:
    found = []
    flipped, agree = (pair.truths[key][pair.row] if key in pair.truths else None for key in ("flipped", "agree"))
    if flipped is not None and flipped:
        found.append("Its label is known to be flipped.")
    if agree is not None and not agree:
        found.append("The judges do not agree on it.")
    return " ".join(found)


SENTENCES: tuple[Callable[[Facts], str], ...] = (_weight, _gap, _share, _bend, _doubt, _length, _labels)


def _whole_percent(share: float) -> str:
    """Rounded down: no pair weighs less than 100 % of the pairs."""
    return f"{floor(100 * share + 1e-9)}{NARROW}%"


def _share_percent(share: float) -> str:
    return "All" if share >= 0.995 else f"{100 * share:.0f}{NARROW}%"
