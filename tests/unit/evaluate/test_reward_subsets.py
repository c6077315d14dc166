"""Reward figures against loops written out here, and laws over random rewards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.evaluate.reward_subsets import PairRewards, by_subset, reward_figures


def rewards(rows):
    """Rows of gain, characters of chosen and rejected, subset, prompt."""
    gain, chosen, rejected, subset, prompt = zip(*rows, strict=True)
    return PairRewards(
        tuple(f"pair-{i}" for i in range(len(rows))),
        np.array(gain),
        np.array(chosen),
        np.array(rejected),
        subset,
        prompt,
    )


laws = settings(max_examples=30, deadline=None)  # each mean draws a thousand times
ROWS = st.lists(
    st.tuples(
        st.sampled_from([-2.0, -0.5, 0.0, 0.5, 2.0]),
        st.integers(1, 5),
        st.integers(1, 5),
        st.sampled_from(["easy", "hard", ""]),
        st.sampled_from(["p", "q", "r", "s"]),
    ),
    min_size=1,
    max_size=30,
)


def counted(rows, question):
    """The slow way: a win is 1, a tie 1/2; None where nothing is asked of any pair."""
    found = [question(*row) for row in rows]
    found = [each for each in found if each is not None]
    return sum(found) / len(found) if found else None


def win(gain):
    return 1.0 if gain > 0 else 0.5 if gain == 0 else 0.0


def oracle(rows):
    return {
        "accuracy": counted(rows, lambda g, c, r, *_: win(g)),
        "longer_wins": counted(rows, lambda g, c, r, *_: win(g if c > r else -g) if c != r else None),
        "chosen_longer": counted(rows, lambda g, c, r, *_: float(c > r) if c != r else None),
        "accuracy_with_length": counted(rows, lambda g, c, r, *_: win(g) if c > r else None),
        "accuracy_against_length": counted(rows, lambda g, c, r, *_: win(g) if c < r else None),
    }


@laws
@given(ROWS)
def test_every_share_is_what_counting_finds(rows):
    found = reward_figures(rewards(rows))
    for name, wanted in oracle(rows).items():
        assert (found[name].value if found[name] else None) == (wanted if wanted is None else pytest.approx(wanted)), (
            name
        )
    assert found["margin"].value == pytest.approx(np.mean([row[0] for row in rows]))


@laws
@given(ROWS)
def test_subsets_are_counted_apart_and_add_up(rows):
    found = by_subset(rewards(rows))
    names = {row[3] for row in rows}
    if names == {""}:
        assert not found
        return
    assert set(found) == {name or "(none)" for name in names}
    for name in names:
        own = [row for row in rows if row[3] == name]
        for figure, wanted in oracle(own).items():
            there = found[name or "(none)"][figure]
            assert (there.value if there else None) == (wanted if wanted is None else pytest.approx(wanted))
    whole = sum(part["accuracy"].value * part["accuracy"].n for part in found.values()) / len(rows)
    assert whole == pytest.approx(oracle(rows)["accuracy"])


@laws
@given(ROWS)
def test_the_opposite_labels_mirror_the_accuracy_and_leave_length_alone(rows):
    here = reward_figures(rewards(rows))
    there = reward_figures(rewards([(-g, r, c, s, p) for g, c, r, s, p in rows]))
    assert there["accuracy"].value == pytest.approx(1 - here["accuracy"].value)
    assert there["margin"].value == pytest.approx(-here["margin"].value)
    assert (there["longer_wins"] is None) == (here["longer_wins"] is None)
    if here["longer_wins"]:
        assert there["longer_wins"].value == pytest.approx(here["longer_wins"].value)


@laws
@given(ROWS, st.sampled_from([0.5, 3.0]))
def test_scaling_rewards_changes_the_margin_only(rows, scale):
    here = reward_figures(rewards(rows))
    there = reward_figures(rewards([(g * scale, *rest) for g, *rest in rows]))
    assert there["margin"].value == pytest.approx(scale * here["margin"].value)
    assert {k: v for k, v in here.items() if k != "margin"} == {k: v for k, v in there.items() if k != "margin"}


def test_a_model_that_follows_length_alone_is_found_out():
    rows = [(1.0 if c > r else -1.0, c, r, "", str(i)) for i, (c, r) in enumerate([(9, 2), (8, 1), (7, 3), (1, 5)])]
    found = reward_figures(rewards(rows))
    assert found["accuracy"].value == 0.75
    assert found["longer_wins"].value == 1.0
    assert found["accuracy_against_length"].value == 0.0
