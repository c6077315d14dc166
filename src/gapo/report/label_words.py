"""What is said of labels that are likely wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapo.report.wording import counted, percent

SHAPES = {"normal": "normal", "heavy": "heavy-tailed", "strengths": "of several strengths"}


def rate_sentence(about: Mapping[str, Any]) -> str:
    """The estimated share of wrong labels, and how many single ones can be named."""
    mixture = about["mixture"]
    return (
        f"About {percent(mixture['rate'])} of the labels are wrong (95 % interval {percent(mixture['low'])} to "
        f"{percent(mixture['high'])}, if alignments are {SHAPES[mixture['shape']]}); "
        f"{counted(about['suspected'], 'label')} of {about['pairs']:,} {'is' if about['suspected'] == 1 else 'are'} "
        "likelier wrong than right."
    )


def apart_sentence(about: Mapping[str, Any]) -> str | None:
    """That pairs of different kinds had better be judged apart, where the check says so in every draw."""
    together, apart = about["check"], about.get("apart")
    if apart is None or apart["low"] <= together["high"]:
        return None
    return (
        f"Judged among pairs of their own subset, flips are found with an area of {apart['area']:.2f} instead of "
        f"{together['area']:.2f}: what is preferred seems to differ between subsets. Try --within subset, unless the "
        "subset says which labels are right."
    )


LIMITS = (
    "A label is suspected where the pair pulls against the direction of the other pairs. That finds labels that "
    "disagree with most others, not labels that are wrong in themselves: a mistake that most annotators share becomes "
    "the consensus, and a sound minority opinion looks like a mistake. Relabel; do not delete unseen."
)
