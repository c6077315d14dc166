"""Watches a run and says in words, once, what looks wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

WINDOW = 10  # steps compared at either end of the run so far
FALL = 0.1  # nats a token that count as falling
COLLAPSE = 1.0  # nats a token that count as collapse
RATIO_RANGE = (0.8, 1.25)
LEAST_AGREEMENT = 0.99  # cosine of an approximate step's gradient with the exact one


class Monitors:
    """Feed it each step's line; it calls `warn` with each kind of trouble the first time it sees it."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._said: set[str] = set()
        self._lines: list[Mapping[str, Any]] = []
        self._first: list[Mapping[str, Any]] = []
        self.warnings: list[str] = []

    def step(self, line: Mapping[str, Any]) -> None:
        if len(self._first) < WINDOW:
            self._first.append(line)
        self._lines = [*self._lines[-(WINDOW - 1) :], line]
        self._check_anchor(line)
        if line["step"] >= 2 * WINDOW:
            self._check_logps(line["step"])
            self._check_margin(line["step"])

    def replies(self, step: int, replies: Sequence[str]) -> None:
        """Replies sampled during training: most of them turning in circles is a sign of collapse."""
        circling = [reply for reply in replies if repeats(reply)]
        if circling and len(circling) * 2 >= len(replies):
            first = " ".join(circling[0].split())[:80]
            self.say(
                "repetition",
                f'step {step}: {len(circling)} of {len(replies)} sampled replies repeat themselves ("{first}"); '
                "the model is degenerating, try a lower learning rate or fewer steps",
            )

    def state(self) -> dict[str, list[str]]:
        """What a checkpoint keeps."""
        return {"warnings": self.warnings, "said": sorted(self._said)}

    def replay(self, lines: Sequence[Mapping[str, Any]], warnings: Sequence[str], said: Sequence[str]) -> None:
        """Go on after these steps, knowing what was said."""
        self._first, self._lines = list(lines[:WINDOW]), list(lines[-WINDOW:])
        self.warnings, self._said = list(warnings), set(said)

    def say(self, kind: str, text: str) -> None:
        """Warn once for each kind."""
        if kind not in self._said:
            self._said.add(kind)
            self.warnings.append(text)
            self._warn(text)

    def _rise(self, key: str) -> float:
        """How much the quantity has risen since the first steps."""
        first = [line[key] for line in self._first if line.get(key) is not None]
        last = [line[key] for line in self._lines if line.get(key) is not None]
        return fmean(last) - fmean(first) if first and last else 0.0

    def _check_anchor(self, line: Mapping[str, Any]) -> None:
        recent = [last["self_check_ratio"] for last in self._lines if last.get("self_check_ratio") is not None]
        ratio, (low, high) = fmean(recent) if recent else 1.0, RATIO_RANGE
        if not low <= ratio <= high:  # of the last steps together: one batch with a sharp bend is no sign
            self.say(
                "ratio",
                f"step {line['step']}: mean gap / (radius * gradient norm) is {ratio:.2f}, outside [{low}, {high}]: "
                "the gap is not the slope's; near 0 or 2 look for low precision, otherwise lower the radius",
            )
        cosine = line.get("audit_cosine")
        if cosine is not None and not cosine >= LEAST_AGREEMENT:
            self.say(
                "audit",
                f"step {line['step']}: the gradient with first-order gaps has cosine {cosine:.3f} with the exact one, "
                f"below {LEAST_AGREEMENT}: choose anchor.engine bank or two_pass, or lower beta or the radius",
            )
        norm = line.get("direction_norm")
        if norm is not None and not (math.isfinite(norm) and norm > 0):
            self.say(
                "direction",
                f"step {line['step']}: the margin's gradient is {norm}, so there is no anchor and every gap is 0",
            )

    def _check_logps(self, step: int) -> None:
        chosen, rejected = self._rise("chosen_logp"), self._rise("rejected_logp")
        if chosen < -FALL and rejected < -FALL:
            self.say(
                "both_falling",
                f"step {step}: chosen ({chosen:+.2f}) and rejected ({rejected:+.2f} nats a token) log-probs both fall; "
                "the margin grows by forgetting: watch the replies, use an NLL term (cpo, orpo) or a reference (dpo)",
            )
        if chosen < -COLLAPSE:
            self.say(
                "collapse",
                f"step {step}: the chosen log-prob fell by {-chosen:.2f} nats a token since the start: the model is "
                "unlearning the preferred replies; lower the learning rate or stop earlier",
            )

    def _check_margin(self, step: int) -> None:
        margin, accuracy = self._rise("margin"), self._rise("accuracy")
        if margin > 0.2 and accuracy < 0.01:
            self.say(
                "margin_alone",
                f"step {step}: the margin grew by {margin:.2f} while the accuracy changed by {accuracy:+.3f}: pairs "
                "already ranked right are pushed further; more training of this kind only drifts",
            )


def repeats(reply: str, size: int = 4, least: int = 24) -> bool:
    """Whether most runs of `size` words in a reply of at least `least` words occur more than once."""
    words = reply.split()
    if len(words) < least:
        return False
    runs = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
    return len(set(runs)) < len(runs) / 2
