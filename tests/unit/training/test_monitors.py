"""Monitors warn once, in words, about each kind of trouble, and are silent otherwise."""

import pytest

from gapo.training.monitors import Monitors, repeats


def watch(steps, **paths):
    """Warnings of a run whose quantities follow these functions of the step."""
    said = []
    monitors = Monitors(said.append)
    healthy = {"chosen_logp": lambda s: -1.0, "rejected_logp": lambda s: -1.5, "margin": lambda s: 0.5}
    healthy |= {"accuracy": lambda s: 0.7, "self_check_ratio": lambda s: 1.0}
    for step in range(1, steps + 1):
        monitors.step({"step": step, **{key: path(step) for key, path in {**healthy, **paths}.items()}})
    assert said == monitors.warnings
    return said


def test_a_healthy_run_is_silent():
    assert not watch(100)


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ({"chosen_logp": lambda s: -1 - s / 100, "rejected_logp": lambda s: -1 - s / 50}, "both fall"),
        ({"chosen_logp": lambda s: -1 - s / 20}, "unlearning"),
        ({"margin": lambda s: s / 100}, "margin grew"),
        ({"self_check_ratio": lambda s: 2.0}, "outside"),
        ({"direction_norm": lambda s: 0.0}, "no anchor"),
    ],
)
def test_each_trouble_is_said_once(paths, words):
    said = watch(100, **paths)
    assert len(said) == 1
    assert words in said[0]


def test_a_rising_margin_with_rising_accuracy_is_no_trouble():
    assert not watch(100, margin=lambda s: s / 100, accuracy=lambda s: 0.5 + s / 300)


def test_missing_numbers_are_no_trouble():
    assert not watch(50, self_check_ratio=lambda s: None, chosen_logp=lambda s: None)


def test_replies_that_turn_in_circles_are_named():
    said = []
    monitors = Monitors(said.append)
    monitors.replies(3, ["I am happy to help you with that today"] * 2)
    assert not said
    monitors.replies(7, ["the cat sat on " * 20, "a short answer"])
    monitors.replies(8, ["the cat sat on " * 20])
    assert len(said) == 1
    assert "step 7: 1 of 2 sampled replies repeat" in said[0]


@pytest.mark.parametrize(
    ("reply", "circling"), [("a b c d " * 10, True), (" ".join(map(str, range(40))), False), ("yes " * 10, False)]
)
def test_repetition_means_most_runs_of_four_words_recur(reply, circling):
    assert repeats(reply) is circling
