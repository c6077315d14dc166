"""What must hold of the objectives on any log-probs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import logsigmoid

from gapo.model.logps import PairLogps
from gapo.objectives import Moments, get_objective, objectives, slopes

bounded = settings(max_examples=40, deadline=None, derandomize=True)
SEPARATE = sorted(name for name, each in objectives().items() if not each.coupled)

logp = st.floats(-60, -0.01)
tokens = st.integers(1, 40)
beta = st.floats(0.01, 10)
gamma = st.floats(-2, 6)
noise = st.floats(0, 0.45)


@st.composite
def scenes(draw, min_pairs=1, max_pairs=6):
    """Everything an objective may need, for the same few pairs."""
    n = draw(st.integers(min_pairs, max_pairs))

    def column(element, dtype=torch.float64):
        return torch.tensor(draw(st.lists(element, min_size=n, max_size=n)), dtype=dtype)

    w, l = column(tokens, torch.long), column(tokens, torch.long)  # noqa: E741
    return {
        "policy": PairLogps(column(logp), column(logp), w, l),
        "reference": PairLogps(column(logp), column(logp), w, l),
        "anchor": PairLogps(column(logp), column(logp), w, l),
        "kl": torch.tensor(draw(st.floats(0, 10)), dtype=torch.float64),
        "moments": Moments(draw(st.floats(-2, 2)), draw(st.floats(0.01, 3))),
        "gradient_norm": column(st.floats(0, 3)),
        "length_term": column(st.floats(0.05, 2)),
        "wrong": column(st.floats(0, 1)),
    }


def needs(objective, scene):
    return {name: scene[name] for name in objective.needs}


def take(scene, index):
    """The same needs for some of the pairs, or for all of them in another order."""
    per_pair = ("policy", "reference", "anchor", "gradient_norm", "length_term", "wrong")
    return {name: value[index] if name in per_pair else value for name, value in scene.items()}


def close(ours, theirs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, check_dtype=False)


# --- GAPO ---------------------------------------------------------------------------------------------------------


@bounded
@given(scenes(), beta, gamma, st.floats(0.01, 5))
def test_gapos_weight_falls_in_the_gap(scene, beta, gamma, more):
    turned = get_objective("gapo", beta=beta, gamma=gamma)
    policy, anchor = scene["policy"], scene["anchor"]
    lower = PairLogps(anchor.chosen - more * anchor.chosen_tokens, *list(vars(anchor).values())[1:])
    weight = slopes(turned, policy, anchor=anchor).weight
    of_a_wider_gap = slopes(turned, policy, anchor=lower).weight
    assert (of_a_wider_gap <= weight).all()
    assert ((of_a_wider_gap < weight) | (weight < 1e-12) | (weight > beta * (1 - 1e-12))).all()


@bounded
@given(scenes(), beta, gamma)
def test_gapos_weight_lies_between_zero_and_beta(scene, beta, gamma):
    turned = get_objective("gapo", beta=beta, gamma=gamma)
    weight = slopes(turned, **needs(turned, scene)).weight
    assert (weight >= 0).all()
    assert (weight <= beta * (1 + 1e-12)).all()
    close(weight, beta * torch.sigmoid(gamma - beta * (scene["policy"].margin - scene["anchor"].margin)))


@bounded
@given(scenes(), beta, gamma)
def test_gapo_at_its_own_anchor_gives_every_pair_the_weight_of_no_gap(scene, beta, gamma):
    turned = get_objective("gapo", beta=beta, gamma=gamma)
    weight = slopes(turned, scene["policy"], anchor=scene["policy"]).weight
    close(weight, torch.full_like(weight, beta / (1 + math.exp(-gamma))))


# --- pairs --------------------------------------------------------------------------------------------------------


@bounded
@given(scenes())
def test_swapping_the_responses_negates_both_margins(scene):
    policy = scene["policy"]
    assert torch.equal(policy.swapped().margin, -policy.margin)
    assert torch.equal(policy.swapped().total_margin, -policy.total_margin)
    assert torch.equal(policy.swapped().swapped().chosen, policy.chosen)


@bounded
@given(scenes())
def test_cutting_and_joining_log_probs_changes_nothing(scene):
    policy = scene["policy"]
    again = PairLogps.cat([policy[:1], policy[1:]])
    assert len(again) == len(policy)
    assert torch.equal(again.margin, policy.margin)
    assert torch.equal(again.total_margin, policy.total_margin)


@pytest.mark.parametrize("name", SEPARATE)
@settings(bounded, max_examples=15)
@given(scene=scenes(min_pairs=2))
def test_the_loss_of_a_pair_does_not_depend_on_the_other_pairs(name, scene):
    objective = get_objective(name)
    together = slopes(objective, **needs(objective, scene))
    for i in range(len(scene["policy"])):
        alone = slopes(objective, **needs(objective, take(scene, slice(i, i + 1))))
        close(together[i : i + 1].loss, alone.loss, 1e-13)
        close(together[i : i + 1].chosen, alone.chosen, 1e-13)
        close(together[i : i + 1].rejected, alone.rejected, 1e-13)


@pytest.mark.parametrize("name", sorted(objectives()))
@settings(bounded, max_examples=15)
@given(scene=scenes(min_pairs=2), seed=st.integers(0, 99))
def test_reordering_the_pairs_reorders_their_losses_and_slopes(name, scene, seed):
    objective = get_objective(name)
    order = torch.randperm(len(scene["policy"]), generator=torch.Generator().manual_seed(seed))
    before = slopes(objective, **needs(objective, scene))
    after = slopes(objective, **needs(objective, take(scene, order)))
    close(after.loss, before.loss[order], 1e-12)
    close(after.chosen, before.chosen[order], 1e-12)
    close(after.rejected, before.rejected[order], 1e-12)


DOUBTING = {"consensus", "consensus_dpo", "consensus_gapo"}


@pytest.mark.parametrize("name", sorted(set(objectives()) - {"ipo", "robust_dpo", "cdpo"} - DOUBTING))
@settings(bounded, max_examples=15)
@given(scene=scenes())
def test_descent_never_pushes_a_pair_against_its_label(name, scene):
    """Ipo, robust_dpo and cdpo turn a pair back once its gain is beyond what they believe of the label."""
    objective = get_objective(name)
    assert (slopes(objective, **needs(objective, scene)).weight >= 0).all()


@pytest.mark.parametrize("name", sorted(DOUBTING))
@bounded
@given(scene=scenes())
def test_a_pair_is_turned_round_where_its_label_is_likelier_wrong_and_never_only_dropped(name, scene):
    turned, dropped = get_objective(name), get_objective(name, correct=False)
    weight = slopes(turned, **needs(turned, scene)).weight
    assert (weight * torch.sign(1 - 2 * scene["wrong"]) >= 0).all()
    assert (slopes(dropped, **needs(dropped, scene)).weight >= 0).all()


@pytest.mark.parametrize("name", sorted(DOUBTING))
@bounded
@given(scene=scenes())
def test_a_flipped_pair_that_is_known_to_be_flipped_is_worth_the_clean_one(name, scene):
    objective = get_objective(name)
    there = {**scene, "wrong": 1 - scene["wrong"]}
    there |= {key: scene[key].swapped() for key in ("policy", "reference", "anchor")}
    close(objective(**needs(objective, there)), objective(**needs(objective, scene)))


# --- the DPO family -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cdpo", "robust_dpo"])
@bounded
@given(scene=scenes(), beta=beta)
def test_without_label_noise_the_noise_aware_losses_are_dpo(name, scene, beta):
    dpo, noise_aware = get_objective("dpo", beta=beta), get_objective(name, beta=beta, e=0)
    close(noise_aware(scene["policy"], scene["reference"]), dpo(scene["policy"], scene["reference"]))


@bounded
@given(scenes(), beta, noise)
def test_robust_dpo_is_unbiased_under_the_flips_it_assumes(scene, beta, e):
    dpo, robust = get_objective("dpo", beta=beta), get_objective("robust_dpo", beta=beta, e=e)
    policy, reference = scene["policy"], scene["reference"]
    as_labelled, flipped = robust(policy, reference), robust(policy.swapped(), reference.swapped())
    close((1 - e) * as_labelled + e * flipped, dpo(policy, reference), 1e-8)


@bounded
@given(scenes(), beta, noise)
def test_cdpo_is_dpo_averaged_over_the_flips_it_assumes(scene, beta, e):
    dpo, cdpo = get_objective("dpo", beta=beta), get_objective("cdpo", beta=beta, e=e)
    policy, reference = scene["policy"], scene["reference"]
    expected = (1 - e) * dpo(policy, reference) + e * dpo(policy.swapped(), reference.swapped())
    close(cdpo(policy, reference), expected)


@bounded
@given(scenes())
def test_rdpo_without_its_length_term_is_dpo(scene):
    rdpo, dpo = get_objective("rdpo", alpha=0), get_objective("dpo")
    close(rdpo(scene["policy"], scene["reference"]), dpo(scene["policy"], scene["reference"]))


@bounded
@given(scenes(), beta, st.sampled_from([1e2, 1e4, 1e6]))
def test_dr_dpo_tends_to_the_mean_of_dpo_as_b_grows(scene, beta, b):
    """Hoeffding's lemma: 0 <= mean - (-b log mean exp(-l/b)) <= (max l - min l)^2 / (8b)."""
    policy, reference = scene["policy"], scene["reference"]
    losses = get_objective("dpo", beta=beta)(policy, reference)
    below_the_mean = losses.mean() - get_objective("dr_dpo", beta=beta, b=b)(policy, reference)
    rounding = 1e-14 * b  # b times the rounding of a logarithm near 0
    assert -rounding <= below_the_mean <= (losses.max() - losses.min()) ** 2 / (8 * b) + rounding


@bounded
@given(scenes(), beta, st.floats(0.1, 20))
def test_dr_dpo_weighs_dpos_pairs_by_a_softmax_of_minus_their_losses(scene, beta, b):
    policy, reference = scene["policy"], scene["reference"]
    dpo = slopes(get_objective("dpo", beta=beta), policy, reference=reference)
    ours = slopes(get_objective("dr_dpo", beta=beta, b=b), policy, reference=reference)
    share = torch.softmax(-dpo.loss / b, dim=0)
    close(ours.weight, len(policy) * share * dpo.weight)
    close(share.sum(), torch.tensor(1.0))


@bounded
@given(scenes(), beta, st.floats(0.1, 20))
def test_dr_dpo_lies_between_the_smallest_loss_and_the_mean(scene, beta, b):
    policy, reference = scene["policy"], scene["reference"]
    losses = get_objective("dpo", beta=beta)(policy, reference)
    ours = get_objective("dr_dpo", beta=beta, b=b)(policy, reference)
    slack = 1e-9 * (1 + losses.max())
    assert losses.min() - slack <= ours <= losses.mean() + slack


@bounded
@given(scenes(), st.floats(0.05, 5))
def test_ipo_is_zero_exactly_where_the_gain_is_its_target(scene, tau):
    policy, reference = scene["policy"], scene["reference"]
    missing = 1 / (2 * tau) - (policy.margin - reference.margin)
    there = PairLogps(policy.chosen + missing * policy.chosen_tokens, *list(vars(policy).values())[1:])
    close(get_objective("ipo", tau=tau)(there, reference), torch.zeros(len(policy)), 1e-9)


@bounded
@given(scenes(), beta, st.floats(0, 2), st.floats(0, 2))
def test_kto_with_zero_kl_is_the_mean_of_two_sigmoids(scene, beta, lam_d, lam_u):
    policy, reference = scene["policy"], scene["reference"]
    ours = get_objective("kto", beta=beta, lam_d=lam_d, lam_u=lam_u)(policy, reference, torch.tensor(0.0))
    chosen = lam_d * torch.sigmoid(-beta * (policy.chosen - reference.chosen))
    rejected = lam_u * torch.sigmoid(beta * (policy.rejected - reference.rejected))
    close(ours, (chosen + rejected) / 2)


@bounded
@given(scenes(), st.floats(0, 10))
def test_kto_at_the_reference_costs_a_half_whatever_the_kl(scene, kl):
    policy = scene["policy"]
    ours = get_objective("kto")(policy, policy, torch.tensor(kl, dtype=torch.float64))
    close(ours, torch.full_like(ours, 0.5))


# --- the policy alone ---------------------------------------------------------------------------------------------


@bounded
@given(scenes(), beta, st.floats(0, 2))
def test_simpo_by_ratio_is_simpo_by_gamma(scene, beta, ratio):
    by_ratio = get_objective("simpo", beta=beta, gamma_beta_ratio=ratio)
    by_gamma = get_objective("simpo", beta=beta, gamma=ratio * beta)
    assert torch.equal(by_ratio(scene["policy"]), by_gamma(scene["policy"]))
    close(by_ratio(scene["policy"]), -logsigmoid(beta * (scene["policy"].margin - ratio)), 1e-9)


@bounded
@given(scenes(), beta, gamma)
def test_alpha_dpo_without_alpha_is_simpo_with_the_same_gamma(scene, beta, gamma):
    alpha_dpo = get_objective("alpha_dpo", beta=beta, gamma=gamma, alpha=0)
    simpo = get_objective("simpo", beta=beta, gamma=gamma)
    close(alpha_dpo(**needs(alpha_dpo, scene)), simpo(scene["policy"]))


@bounded
@given(scenes(), st.floats(-2, 2))
def test_alpha_dpo_with_no_spread_yet_is_simpo_with_the_same_gamma(scene, mean):
    alpha_dpo, simpo = get_objective("alpha_dpo", gamma=0.5, alpha=0.3), get_objective("simpo", gamma=0.5)
    ours = slopes(alpha_dpo, scene["policy"], reference=scene["reference"], moments=Moments(mean, 0.0))
    theirs = slopes(simpo, scene["policy"])
    close(ours.loss, theirs.loss)
    close(ours.chosen, theirs.chosen)


@bounded
@given(scenes(), beta)
def test_simpo_swapped_costs_its_margin_more(scene, beta):
    """-ls(-x) = -ls(x) + x at gamma 0."""
    simpo, policy = get_objective("simpo", beta=beta, gamma=0), scene["policy"]
    close(simpo(policy.swapped()), simpo(policy) + beta * policy.margin, 1e-9)


@bounded
@given(scenes())
def test_cpo_and_orpo_without_their_margin_term_are_the_nll(scene):
    policy = scene["policy"]
    close(get_objective("orpo", lam=0)(policy), -policy.chosen_mean)
    margin_term = get_objective("cpo", alpha=0)(policy)
    close(get_objective("cpo", alpha=2.0)(policy) - margin_term, -2 * policy.chosen_mean, 1e-9)
