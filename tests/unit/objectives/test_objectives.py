"""Every objective against its formula in numpy, written from the notes and not from the code."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gapo.errors import InputError
from gapo.model.logps import PairLogps
from gapo.objectives import Moments, get_objective, objectives, slopes
from gapo.objectives.registry import NEEDS, objective

PAIRS = 6


def ls(x):
    """log sigmoid."""
    return -np.logaddexp(0.0, -x)


def s(x):
    """Sigmoid."""
    return np.exp(ls(x))


def log1mexp(x):
    return np.log(-np.expm1(x))


def total_gain(x):
    return (x.Lw - x.Rw) - (x.Ll - x.Rl)


def margin(x):
    return x.Lw / x.w - x.Ll / x.l


def reference_margin(x):
    return x.Rw / x.w - x.Rl / x.l


@dataclass(frozen=True)
class Case:
    """A row of the table: `formula(x, home, **knobs)`.

    `x` holds the inputs that move when a slope is taken, `home` the same inputs at rest: what a formula reads there is
    under a stop-gradient. `depends_on` names the margin a loss is a function of: "total", "mean" or neither.
    """

    name: str
    formula: Callable[..., np.ndarray]
    defaults: dict[str, float]
    knobs: dict[str, float] = field(default_factory=dict)
    depends_on: str | None = None

    @property
    def id(self) -> str:
        return "-".join([self.name, *(f"{name}={value}" for name, value in self.knobs.items())])

    def loss(self, x, home):
        return self.formula(x, home, **{**self.defaults, **self.knobs})


def gapo(x, home, beta, gamma):
    return -ls(beta * (margin(x) - x.anchor_margin) - gamma)


def in_place_of_the_gap(value):
    def loss(x, home, beta, gamma):
        return -ls(beta * (margin(x) - margin(home) + getattr(x, value)) - gamma)

    return loss


def dpo(x, home, beta):
    return -ls(beta * total_gain(x))


def ipo(x, home, tau, summed=False):
    gain = total_gain(x) if summed else (x.Lw - x.Rw) / x.w - (x.Ll - x.Rl) / x.l
    return (gain - 1 / (2 * tau)) ** 2


def kto(x, home, beta, lam_d, lam_u):
    chosen = lam_d * (1 - s(beta * (x.Lw - x.Rw - x.kl)))
    rejected = lam_u * (1 - s(beta * (x.kl - (x.Ll - x.Rl))))
    return (chosen + rejected) / 2


def cpo(x, home, beta, alpha):
    return -ls(beta * (x.Lw - x.Ll)) + alpha * (-x.Lw / x.w)


def orpo(x, home, lam):
    a_w, a_l = x.Lw / x.w, x.Ll / x.l
    return -a_w - lam * ls((a_w - a_l) - (log1mexp(a_w) - log1mexp(a_l)))


def rdpo(x, home, beta, alpha):
    return -ls(beta * total_gain(x) + alpha * (x.w - x.l))


def simpo(x, home, beta, gamma):
    return -ls(beta * margin(x) - gamma)


def alpha_dpo(x, home, beta, gamma, alpha):
    z = ((margin(home) - reference_margin(home)) - x.mean) / x.std
    return -ls(beta * (margin(x) - alpha * z) - gamma)


def robust_dpo(x, home, beta, e):
    return (-(1 - e) * ls(beta * total_gain(x)) + e * ls(-beta * total_gain(x))) / (1 - 2 * e)


def cdpo(x, home, beta, e):
    return -(1 - e) * ls(beta * total_gain(x)) - e * ls(-beta * total_gain(x))


def dr_dpo(x, home, beta, b):
    return -b * np.log(np.mean(np.exp(ls(beta * total_gain(x)) / b)))


def by_trust(value):
    def loss(x, home, beta, gamma, correct):
        p, m = x.wrong, value(x)
        dropped = (1 - p) * -ls(beta * m - gamma)
        turned = np.where(p < 0.5, (1 - 2 * p) * -ls(beta * m - gamma), (2 * p - 1) * -ls(-beta * m - gamma))
        return turned if correct else dropped

    return loss


def doubted_dpo(x, home, beta, correct):
    return by_trust(total_gain)(x, home, beta, 0.0, correct)


def gap(x):
    return margin(x) - x.anchor_margin


DOUBTED = {"beta": 2.5, "gamma": 0.25, "correct": True}
ANCHORED = {"beta": 2.5, "gamma": 0.1}
TABLE = [
    Case("gapo", gapo, ANCHORED, depends_on="mean"),
    Case("gapo", gapo, ANCHORED, {"beta": 10.0, "gamma": 0.5}, depends_on="mean"),
    Case("gradnorm", in_place_of_the_gap("gradient_norm"), ANCHORED, depends_on="mean"),
    Case("gradnorm", in_place_of_the_gap("gradient_norm"), ANCHORED, {"gamma": -1.0}, depends_on="mean"),
    Case("length_only", in_place_of_the_gap("length_term"), ANCHORED, depends_on="mean"),
    Case("length_only", in_place_of_the_gap("length_term"), ANCHORED, {"beta": 1.0}, depends_on="mean"),
    Case("consensus", by_trust(margin), DOUBTED, depends_on="mean"),
    Case("consensus", by_trust(margin), DOUBTED, {"beta": 10.0, "correct": False}, depends_on="mean"),
    Case("consensus_gapo", by_trust(gap), {**DOUBTED, "gamma": 0.1}, depends_on="mean"),
    Case("consensus_gapo", by_trust(gap), {**DOUBTED, "gamma": 0.1}, {"correct": False}, depends_on="mean"),
    Case("consensus_dpo", doubted_dpo, {"beta": 0.1, "correct": True}, depends_on="total"),
    Case("consensus_dpo", doubted_dpo, {"beta": 0.1, "correct": True}, {"correct": False}, depends_on="total"),
    Case("dpo", dpo, {"beta": 0.1}, depends_on="total"),
    Case("dpo", dpo, {"beta": 0.1}, {"beta": 0.01}, depends_on="total"),
    Case("ipo", ipo, {"tau": 0.1}, depends_on="mean"),
    Case("ipo", ipo, {"tau": 0.1}, {"tau": 0.5, "summed": True}, depends_on="total"),
    Case("kto", kto, {"beta": 0.1, "lam_d": 1.0, "lam_u": 1.0}),
    Case("kto", kto, {"beta": 0.1, "lam_d": 1.0, "lam_u": 1.0}, {"beta": 0.5, "lam_d": 1.3, "lam_u": 0.7}),
    Case("cpo", cpo, {"beta": 0.1, "alpha": 1.0}),
    Case("cpo", cpo, {"beta": 0.1, "alpha": 1.0}, {"alpha": 0.0}, depends_on="total"),
    Case("orpo", orpo, {"lam": 0.1}),
    Case("orpo", orpo, {"lam": 0.1}, {"lam": 1.0}),
    Case("rdpo", rdpo, {"beta": 0.1, "alpha": 0.05}, depends_on="total"),
    Case("rdpo", rdpo, {"beta": 0.1, "alpha": 0.05}, {"alpha": 0.3}, depends_on="total"),
    Case("simpo", simpo, {"beta": 2.5, "gamma": 0.25}, depends_on="mean"),
    Case("simpo", simpo, {"beta": 2.5, "gamma": 0.25}, {"beta": 10.0, "gamma": 5.0}, depends_on="mean"),
    Case("alpha_dpo", alpha_dpo, {"beta": 2.5, "gamma": 0.375, "alpha": 0.05}, depends_on="mean"),
    Case("alpha_dpo", alpha_dpo, {"beta": 2.5, "gamma": 0.375, "alpha": 0.05}, {"alpha": 0.6}, depends_on="mean"),
    Case("robust_dpo", robust_dpo, {"beta": 0.1, "e": 0.1}, depends_on="total"),
    Case("robust_dpo", robust_dpo, {"beta": 0.1, "e": 0.1}, {"e": 0.4}, depends_on="total"),
    Case("cdpo", cdpo, {"beta": 0.1, "e": 0.1}, depends_on="total"),
    Case("cdpo", cdpo, {"beta": 0.1, "e": 0.1}, {"e": 0.4}, depends_on="total"),
    Case("dr_dpo", dr_dpo, {"beta": 0.1, "b": 1.0}, depends_on="total"),
    Case("dr_dpo", dr_dpo, {"beta": 0.1, "b": 1.0}, {"b": 0.2}, depends_on="total"),
]
every_case = pytest.mark.parametrize("case", TABLE, ids=lambda case: case.id)


def random_inputs(seed: int = 0) -> SimpleNamespace:
    """Log-probs between -0.2 and -4 per token of responses of 1 to 12 tokens, and everything else a loss may need."""
    rng = np.random.default_rng(seed)
    w, l = rng.integers(1, 13, (2, PAIRS))  # noqa: E741  the notes call it |l|
    return SimpleNamespace(
        w=w,
        l=l,
        Lw=-rng.uniform(0.2, 4, PAIRS) * w,
        Ll=-rng.uniform(0.2, 4, PAIRS) * l,
        Rw=-rng.uniform(0.2, 4, PAIRS) * w,
        Rl=-rng.uniform(0.2, 4, PAIRS) * l,
        anchor_margin=rng.normal(size=PAIRS),
        gradient_norm=rng.uniform(0, 1, PAIRS),
        length_term=1 / w + 1 / l,
        wrong=rng.uniform(0, 1, PAIRS),
        kl=rng.uniform(0, 3),
        mean=rng.normal(),
        std=rng.uniform(0.1, 2),
    )


def to_torch(x: SimpleNamespace, dtype: torch.dtype = torch.float64) -> dict[str, object]:
    """The same inputs as the needs of an objective."""

    def logps(chosen, rejected):
        as_floats = [torch.tensor(np.asarray(values), dtype=dtype) for values in (chosen, rejected)]
        return PairLogps(*as_floats, torch.tensor(x.w), torch.tensor(x.l))

    return {
        "policy": logps(x.Lw, x.Ll),
        "reference": logps(x.Rw, x.Rl),
        "anchor": logps(x.anchor_margin * x.w, np.zeros(len(x.w))),  # a_l = 0, so its margin is anchor_margin
        "kl": torch.tensor(x.kl, dtype=dtype),
        "moments": Moments(float(x.mean), float(x.std)),
        "gradient_norm": torch.tensor(x.gradient_norm, dtype=dtype),
        "length_term": torch.tensor(x.length_term, dtype=dtype),
        "wrong": torch.tensor(x.wrong, dtype=torch.float64),
    }


def needs_of(chosen_objective, x: SimpleNamespace, dtype: torch.dtype = torch.float64) -> dict[str, object]:
    everything = to_torch(x, dtype)
    return {name: everything[name] for name in chosen_objective.needs}


def numpy_slopes(case: Case, x: SimpleNamespace, step: float = 1e-5) -> tuple[np.ndarray, np.ndarray]:
    """Slope of the summed loss in every chosen and rejected log-prob, by central differences."""

    def total(name, i, by):
        moved = SimpleNamespace(**vars(x))
        setattr(moved, name, getattr(x, name) + by * np.eye(PAIRS)[i])
        loss = case.loss(moved, x)
        return np.sum(loss) if np.ndim(loss) else PAIRS * loss  # a coupled loss is carried by every pair

    return tuple(
        np.array([(total(name, i, step) - total(name, i, -step)) / (2 * step) for i in range(PAIRS)])
        for name in ("Lw", "Ll")
    )


# --- the battery --------------------------------------------------------------------------------------------------


def test_every_objective_has_a_row_in_the_table():
    assert {case.name for case in TABLE} == set(objectives())


def test_every_need_is_given_to_some_objective():
    assert (
        {need for each in objectives().values() for need in each.needs} == set(NEEDS) == set(to_torch(random_inputs()))
    )


@every_case
def test_the_defaults_are_those_of_the_notes(case):
    settings = dict(get_objective(case.name).settings)
    settings.pop("summed", None)
    assert settings == case.defaults


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_the_formula(case, seed):
    x = random_inputs(seed)
    turned = get_objective(case.name, **case.knobs)
    ours = turned(**needs_of(turned, x))
    assert ours.ndim == (0 if turned.coupled else 1)
    np.testing.assert_allclose(ours.numpy(), case.loss(x, x), rtol=1e-12, atol=1e-12)


@every_case
def test_the_slopes_are_the_formulas_central_differences(case):
    x = random_inputs(seed=3)
    turned = get_objective(case.name, **case.knobs)
    by_chosen, by_rejected = numpy_slopes(case, x)
    ours = slopes(turned, **needs_of(turned, x))
    np.testing.assert_allclose(ours.chosen, by_chosen, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.rejected, by_rejected, rtol=1e-6, atol=1e-8)


@every_case
def test_slopes_are_what_backward_gives(case):
    turned = get_objective(case.name, **case.knobs)
    needs = needs_of(turned, random_inputs(seed=4))
    policy = needs.pop("policy")
    policy.chosen.requires_grad_()
    policy.rejected.requires_grad_()
    loss = turned(policy=policy, **needs)
    loss.mean().backward()
    ours = slopes(turned, policy, **needs)
    torch.testing.assert_close(ours.chosen / PAIRS, policy.chosen.grad, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(ours.rejected / PAIRS, policy.rejected.grad, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(ours.loss.mean(), loss.mean().detach(), rtol=1e-12, atol=0)
    assert ours.loss.shape == (PAIRS,)
    assert not ours.loss.requires_grad


@every_case
def test_slopes_work_without_gradient_and_leave_the_policy_alone(case):
    turned = get_objective(case.name, **case.knobs)
    needs = needs_of(turned, random_inputs(seed=5))
    with_gradient = slopes(turned, **needs)
    with torch.no_grad():
        without = slopes(turned, **needs)
    assert torch.equal(with_gradient.chosen, without.chosen)
    assert needs["policy"].chosen.grad is None
    assert not needs["policy"].chosen.requires_grad


@pytest.mark.parametrize("case", [case for case in TABLE if case.depends_on], ids=lambda case: case.id)
def test_where_the_loss_depends_on_the_margin_alone_the_weight_is_all_there_is(case):
    x = random_inputs(seed=6)
    turned = get_objective(case.name, **case.knobs)
    ours = slopes(turned, **needs_of(turned, x))
    w, l = (x.w, x.l) if case.depends_on == "mean" else (1, 1)  # noqa: E741
    np.testing.assert_allclose(ours.chosen, -ours.weight.numpy() / w, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(ours.rejected, ours.weight.numpy() / l, rtol=1e-10, atol=1e-14)


@every_case
def test_the_reward_gain_is_the_margin_the_loss_is_written_in(case):
    x = random_inputs(seed=7)
    turned = get_objective(case.name, **case.knobs)
    needs = to_torch(x)
    reward = turned.reward
    total = case.depends_on == "total" or case.name in ("kto", "cpo")
    policy_part = x.Lw - x.Ll if total else margin(x)
    reference_part = x.Rw - x.Rl if total else reference_margin(x)
    expected = policy_part - reference_part if reward.relative else policy_part
    np.testing.assert_allclose(reward.gain(needs["policy"], needs["reference"]), expected, rtol=1e-12)
    assert reward.relative == (
        case.name in {"dpo", "consensus_dpo", "ipo", "kto", "rdpo", "robust_dpo", "cdpo", "dr_dpo"}
    )


@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_extreme_log_probs_give_finite_values_and_slopes(case, dtype):
    extremes = (-1e4, -1.0, -1e-6, 0.0)
    Lw, Ll, Rw, Rl = (np.array(column) for column in zip(*itertools.product(extremes, repeat=4), strict=True))  # noqa: N806
    pairs = len(Lw)
    for w, l in ((1, 1), (1, 7), (7, 1)):  # noqa: E741
        x = random_inputs()
        vars(x).update(Lw=Lw, Ll=Ll, Rw=Rw, Rl=Rl, w=np.full(pairs, w), l=np.full(pairs, l))
        vars(x).update(anchor_margin=Rw / w - Rl / l, gradient_norm=-Rw, length_term=-Rl)
        vars(x).update(wrong=np.resize([0.0, 0.3, 0.5, 1.0], pairs))
        turned = get_objective(case.name, **case.knobs)
        ours = slopes(turned, **needs_of(turned, x, dtype))
        for name in ("loss", "chosen", "rejected", "weight"):
            assert torch.isfinite(getattr(ours, name)).all(), name


@every_case
def test_a_slice_of_the_slopes_is_the_slopes_of_the_slice(case):
    turned = get_objective(case.name, **case.knobs)
    ours = slopes(turned, **needs_of(turned, random_inputs()))
    assert torch.equal(ours[1:3].weight, ours.weight[1:3])
    assert torch.equal(ours[1:3].chosen, ours.chosen[1:3])


# --- known values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dpo", "cdpo", "dr_dpo"])
def test_at_the_reference_every_pair_costs_log_two(name):
    needs = to_torch(random_inputs())
    loss = get_objective(name)(policy=needs["policy"], reference=needs["policy"])
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-14)


def test_dpos_weight_at_the_reference_is_half_of_beta():
    policy = to_torch(random_inputs())["policy"]
    np.testing.assert_allclose(
        slopes(get_objective("dpo", beta=0.3), policy, reference=policy).weight, 0.15, rtol=1e-14
    )


def test_gapos_weight_is_beta_times_sigmoid_of_gamma_minus_beta_times_gap():
    x = random_inputs()
    turned = get_objective("gapo", beta=3.0, gamma=0.4)
    gap = margin(x) - x.anchor_margin
    np.testing.assert_allclose(slopes(turned, **needs_of(turned, x)).weight, 3 * s(0.4 - 3 * gap), rtol=1e-12)


@pytest.mark.parametrize(("name", "value"), [("gradnorm", "gradient_norm"), ("length_only", "length_term")])
def test_the_controls_put_their_own_quantity_in_the_gaps_place(name, value):
    x = random_inputs()
    turned = get_objective(name)
    expected = 2.5 * s(0.1 - 2.5 * getattr(x, value))
    np.testing.assert_allclose(slopes(turned, **needs_of(turned, x)).weight, expected, rtol=1e-12)


def test_gapo_with_the_anchors_own_gap_equals_its_control_with_that_value():
    x = random_inputs()
    x.gradient_norm = margin(x) - x.anchor_margin
    gapo_, control = (get_objective(name) for name in ("gapo", "gradnorm"))
    ours, theirs = (slopes(each, **needs_of(each, x)) for each in (gapo_, control))
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-12)
    np.testing.assert_allclose(ours.chosen, theirs.chosen, rtol=1e-12)


def test_no_gradient_reaches_the_anchor_or_the_reference_margin_of_alpha_dpo():
    needs = to_torch(random_inputs())
    for name, frozen in (("gapo", "anchor"), ("alpha_dpo", "reference")):
        still = needs[frozen]
        leaf = PairLogps(
            still.chosen.clone().requires_grad_(), still.rejected, still.chosen_tokens, still.rejected_tokens
        )
        turned = get_objective(name)
        loss = turned(**{**{need: needs[need] for need in turned.needs}, frozen: leaf})
        assert not loss.requires_grad, name


def test_a_longer_winner_gets_a_smaller_push_from_rdpo():
    reference = PairLogps(torch.zeros(2), torch.zeros(2), torch.tensor([5, 20]), torch.tensor([5, 5]))
    weight = slopes(get_objective("rdpo"), reference, reference=reference).weight
    assert weight[1] < weight[0]


def test_only_the_anchored_objectives_say_so():
    assert {name for name, each in objectives().items() if each.anchored} == {
        "gapo",
        "gradnorm",
        "length_only",
        "consensus_gapo",
    }


# --- knobs --------------------------------------------------------------------------------------------------------


def test_an_unknown_objective_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown objective 'simpoo'; did you mean 'simpo'\?"):
        get_objective("simpoo")


def test_an_objective_like_no_other_is_answered_with_all_of_them():
    with pytest.raises(InputError, match=r"known: alpha_dpo, .*simpo"):
        get_objective("xyzzy")


def test_an_unknown_knob_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"dpo has no knob 'betta'; did you mean 'beta'\?"):
        get_objective("dpo", betta=0.1)


@pytest.mark.parametrize(
    ("name", "knobs", "says"),
    [
        ("dpo", {"beta": "0.1"}, "must be a number"),
        ("dpo", {"beta": True}, "must be a number"),
        ("dpo", {"beta": None}, "must be a number"),
        ("dpo", {"beta": [0.1]}, "must be a number"),
        ("ipo", {"summed": 1}, "must be true or false"),
        ("ipo", {"summed": "yes"}, "must be true or false"),
        ("simpo", {"gamma_beta_ratio": "0.5"}, "gamma_beta_ratio.* must be a number"),
        ("simpo", {"gamma_beta_ratio": True}, "gamma_beta_ratio.* must be a number"),
        ("simpo", {"gamma_beta_ratio": 0.5, "beta": "2"}, "beta.* must be a number"),
    ],
)
def test_a_knob_of_the_wrong_type_is_refused(name, knobs, says):
    with pytest.raises(InputError, match=says):
        get_objective(name, **knobs)


@pytest.mark.parametrize(
    ("name", "knobs", "says"),
    [
        ("dpo", {"beta": 0}, "greater than 0, not 0"),
        ("dpo", {"beta": -0.1}, "greater than 0"),
        ("dpo", {"beta": float("nan")}, "greater than 0"),
        ("dpo", {"beta": float("inf")}, "a finite number, not inf"),
        ("simpo", {"gamma": float("nan")}, "a finite number"),
        ("simpo", {"gamma": float("-inf")}, "a finite number"),
        ("ipo", {"tau": 0.0}, "greater than 0"),
        ("dr_dpo", {"b": 0.0}, "greater than 0"),
        ("robust_dpo", {"e": 0.5}, "at least 0 and below 0.5"),
        ("cdpo", {"e": -0.1}, "at least 0 and below 0.5"),
    ],
)
def test_a_knob_out_of_range_is_refused(name, knobs, says):
    with pytest.raises(InputError, match=says):
        get_objective(name, **knobs)


@pytest.mark.parametrize("name", ["simpo", "gapo", "alpha_dpo"])
def test_gamma_and_its_ratio_to_beta_are_not_accepted_together(name):
    with pytest.raises(InputError, match=r"gamma .* or gamma_beta_ratio .* not both"):
        get_objective(name, gamma=0.5, gamma_beta_ratio=0.2)


def test_the_ratio_is_no_knob_where_there_is_no_gamma():
    with pytest.raises(InputError, match="dpo has no knob 'gamma_beta_ratio'"):
        get_objective("dpo", gamma_beta_ratio=0.2)


def test_the_ratio_is_taken_of_the_beta_given_with_it_or_of_the_default():
    assert get_objective("simpo", gamma_beta_ratio=0.4).settings["gamma"] == pytest.approx(1.0)
    assert get_objective("simpo", beta=10, gamma_beta_ratio=0.5).settings["gamma"] == pytest.approx(5.0)
    assert get_objective("simpo", beta=10).turn(gamma_beta_ratio=0.5).settings["gamma"] == pytest.approx(5.0)


def test_turning_a_knob_leaves_the_registered_objective_as_it_was():
    get_objective("dpo", beta=7.0)
    assert get_objective("dpo").settings["beta"] == 0.1
    assert get_objective("dpo", beta=7).turn().settings["beta"] == 7


def test_a_loss_that_needs_what_no_step_computes_cannot_be_registered():
    def wants_the_moon(policy, moon): ...

    def has_no_default(policy, *, beta): ...

    for loss in (wants_the_moon, has_no_default):
        with pytest.raises(TypeError, match="knobs are keyword-only with defaults"):
            objective(per_token=True)(loss)
        assert loss.__name__ not in objectives()


def test_a_relative_reward_without_a_reference_is_an_error():
    with pytest.raises(ValueError, match="none was given"):
        get_objective("dpo").reward.gain(to_torch(random_inputs())["policy"], None)
