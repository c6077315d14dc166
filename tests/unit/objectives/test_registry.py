"""The contract of an objective: what is read from its signature, and what a reward is."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from gapo.model.logps import PairLogps
from gapo.objectives import Moments, get_objective, objectives
from gapo.objectives.registry import _OBJECTIVES, Reward, objective


@pytest.fixture
def forgotten():
    """What a test registers is gone after it."""
    before = dict(_OBJECTIVES)
    yield
    _OBJECTIVES.clear()
    _OBJECTIVES.update(before)


def test_positional_names_are_needs_and_keyword_only_names_are_knobs(forgotten):
    @objective(per_token=True)
    def mine(policy, reference, *, beta=0.5, loud=False): ...

    assert objectives()["mine"] is mine
    assert mine.needs == ("policy", "reference")
    assert dict(mine.knobs) == mine.settings == {"beta": 0.5, "loud": False}
    assert mine.reward == Reward(per_token=True, relative=False)
    assert mine.coupled is False
    assert list(objectives()) == sorted(objectives())


def test_one_knob_without_a_default_is_enough_to_be_refused():
    def half_told(policy, *, beta, gamma=1.0): ...

    with pytest.raises(TypeError, match="keyword-only with defaults"):
        objective(per_token=True)(half_told)


def test_only_dr_dpo_mixes_the_pairs_of_a_step():
    assert [name for name, each in objectives().items() if each.coupled] == ["dr_dpo"]


def test_turning_keeps_what_was_turned_before():
    turned = get_objective("simpo", beta=4.0).turn(gamma=1.0)
    assert turned.settings == {"beta": 4.0, "gamma": 1.0}
    assert turned.turn(gamma_beta_ratio=0.5).settings == {"beta": 4.0, "gamma": 2.0}
    assert turned.turn(beta=8.0, gamma_beta_ratio=0.5).settings == {"beta": 8.0, "gamma": 4.0}


def test_the_summed_form_of_ipo_is_rewarded_in_total():
    assert get_objective("ipo").reward.per_token
    assert not get_objective("ipo", summed=True).reward.per_token
    assert get_objective("ipo", summed=True).turn(tau=0.2).reward == get_objective("ipo", summed=True).reward
    assert get_objective("ipo", summed=True).turn(summed=False).reward.per_token


def test_a_reward_is_a_margin_per_token_or_in_total_alone_or_above_the_reference():
    policy = PairLogps(torch.tensor([-6.0]), torch.tensor([-4.0]), torch.tensor([3]), torch.tensor([1]))
    reference = PairLogps(torch.tensor([-3.0]), torch.tensor([-5.0]), torch.tensor([3]), torch.tensor([1]))
    wanted = {(True, False): 2, (True, True): 2 - 4, (False, False): -2, (False, True): -2 - 2}
    for (per_token, relative), gain in wanted.items():
        assert Reward(per_token, relative).gain(policy, reference).tolist() == [gain]
    assert Reward(True, False).gain(policy, None).tolist() == [2]


@pytest.mark.parametrize("value", [Moments(0.0, 1.0), Reward(True, False), get_objective("dpo")])
def test_values_are_frozen_and_knobs_cannot_be_written_to(value):
    with pytest.raises(FrozenInstanceError):
        setattr(value, next(iter(vars(value))), 2)
    with pytest.raises(TypeError):
        get_objective("dpo").knobs["beta"] = 3


def test_a_boundary_belongs_to_the_range_it_is_said_to():
    assert get_objective("cdpo", e=0).settings["e"] == 0
    assert get_objective("simpo", gamma=-3).settings["gamma"] == -3
    assert get_objective("simpo", gamma_beta_ratio=0).settings["gamma"] == 0
    for name, knob in (("dpo", "beta"), ("ipo", "tau"), ("dr_dpo", "b")):
        assert get_objective(name, **{knob: 1e-9}).settings[knob] == 1e-9
