"""Slopes apart from any one loss: how they are cut and joined, what the weight is, which margin a loss depends on."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import torch

from gapo.model.logps import PairLogps
from gapo.objectives import Moments, Objective, Slopes, depends_on_margin_alone, get_objective, objectives, slopes
from gapo.objectives.policy_only import log1mexp
from gapo.objectives.registry import Reward

NAMES = [field.name for field in fields(Slopes)]


def some(count=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return Slopes(*torch.randn(len(NAMES), count, generator=draw, dtype=torch.float64))


def policy(seed=0, count=4):
    rng = np.random.default_rng(seed)
    w, l = rng.integers(1, 9, (2, count))  # noqa: E741
    values = [torch.tensor(-rng.uniform(0.1, 3, count) * tokens) for tokens in (w, l)]
    return PairLogps(*values, torch.tensor(w), torch.tensor(l))


def test_every_column_is_cut_and_joined_alike():
    whole = some()
    for name in NAMES:
        assert torch.equal(getattr(whole[1:3], name), getattr(whole, name)[1:3])
        assert torch.equal(getattr(Slopes.cat([whole[:2], whole[2:]]), name), getattr(whole, name))
    with pytest.raises(FrozenInstanceError):
        whole.loss = whole.weight


@pytest.mark.parametrize("name", ["cpo", "orpo", "kto"])
def test_the_weight_is_minus_half_the_slope_along_the_objectives_own_margin(name):
    """Also where the loss depends on more than a margin: both sides moved apart by h/2 each, in the reward's unit."""
    objective, at = get_objective(name), policy()
    more = {"kto": {"reference": policy(1), "kl": torch.tensor(0.3)}}.get(name, {})
    units = (at.chosen_tokens, at.rejected_tokens) if objective.reward.per_token else (1, 1)

    def moved(h):
        chosen, rejected = at.chosen + h / 2 * units[0], at.rejected - h / 2 * units[1]
        return objective(policy=PairLogps(chosen, rejected, at.chosen_tokens, at.rejected_tokens), **more)

    numerical = -(moved(1e-5) - moved(-1e-5)) / 2e-5
    assert torch.allclose(slopes(objective, at, **more).weight, numerical, atol=1e-8)


def test_the_losses_of_the_margin_per_token_alone():
    alone = {name for name, each in objectives().items() if depends_on_margin_alone(each)}
    assert alone == {"alpha_dpo", "gapo", "gradnorm", "ipo", "length_only", "simpo", "consensus", "consensus_gapo"}
    assert not depends_on_margin_alone(get_objective("ipo", summed=True))
    assert not depends_on_margin_alone(get_objective("orpo", lam=0))
    assert depends_on_margin_alone(get_objective("dpo")) is False
    assert depends_on_margin_alone(get_objective("simpo")) is True


@pytest.mark.parametrize("told", [{"per_token": False}, {"per_token": True, "coupled": True}])
def test_a_loss_that_mixes_pairs_or_is_rewarded_in_total_is_none_of_them(told):
    mine = Objective("mine", lambda policy: policy.margin.mean(), ("policy",), {}, Reward(told["per_token"], False))
    assert mine.coupled is False
    assert depends_on_margin_alone(replace(mine, coupled=told.get("coupled", False))) is False


@pytest.mark.parametrize(("std", "counts"), [(1e-5, False), (1.1e-5, True)])
def test_a_spread_of_a_hundred_thousandth_counts_as_none(std, counts):
    at, reference = policy(2), policy(3)
    moved = PairLogps(
        *(getattr(reference, side) for side in ("chosen", "rejected")), at.chosen_tokens, at.rejected_tokens
    )
    ours = get_objective("alpha_dpo", gamma=0.5)(at, moved, Moments(0.0, std))
    assert torch.allclose(ours, get_objective("simpo", gamma=0.5)(at)) is not counts


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_log1mexp_and_its_slope_are_accurate_from_one_end_to_the_other(dtype):
    """log(1 - e^x), and its slope 1 / (1 - e^-x), both in extended precision."""
    x = -np.logspace(-12, 1.9, 300)  # below, e^x is no normal number of float32
    given = torch.tensor(x, dtype=dtype, requires_grad=True)
    found = log1mexp(given)
    found.sum().backward()
    exact = given.detach().numpy().astype(np.longdouble)
    small = -np.exp(exact)
    wanted = np.where(exact > -1, np.log(-np.expm1(exact)), np.log1p(small)).astype(np.float64)
    slope = (-1 / np.expm1(-exact)).astype(np.float64)
    bits = 8 * torch.finfo(dtype).eps
    np.testing.assert_allclose(found.detach().double(), wanted, rtol=bits)
    np.testing.assert_allclose(given.grad.double(), slope, rtol=bits)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_certain_response_has_finite_odds(dtype):
    certain = torch.zeros(1, dtype=dtype, requires_grad=True)
    found = log1mexp(certain)
    found.backward()
    assert float(found.detach()) == pytest.approx(np.log(torch.finfo(dtype).tiny), rel=1e-3)
    assert certain.grad.isfinite().all()
