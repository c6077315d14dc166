"""Products with Hessians and their extreme eigenvalues, against dense Hessians of losses written down by hand."""

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import logsigmoid

import literal
import tiny
from gapo.anchor import AnchorSettings, probe
from gapo.anchor.gap import parameters_in_scope
from gapo.diagnostics.second_order import head_hessian, hessian, mean_loss, mean_margin, precise
from gapo.diagnostics.spectrum import extreme_eigenvalues
from gapo.model.double import kept_double
from gapo.model.passes import forward
from gapo.objectives import get_objective
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair

SMALL = {"vocab_size": 11, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
PAIRS = [
    EncodedPair("a", [3, 4], [5, 6, 7], [8]),
    EncodedPair("b", [9], [4, 10], [3, 5, 2]),
    EncodedPair("c", [6, 7, 8], [2], [9, 9]),
]
ANCHOR = AnchorSettings(radius=0.2, batches=1)


class Moved:
    """The model with other weights, for `literal`, which only calls it."""

    def __init__(self, model, weights):
        self.model, self.weights = model, weights

    def __call__(self, **inputs):
        return functional_call(self.model, self.weights, (), inputs)


def margins_at(model, vector, names):
    """Every pair's margin where the named weights have these entries."""
    weights, start = {}, 0
    for name, parameter in model.named_parameters():
        if name in names:
            weights[name] = vector[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
    assert start == len(vector)
    return torch.stack([literal.margin(Moved(model, weights), pair) for pair in PAIRS])


def dense(model, names, function):
    """d^2 function(margins) in the named weights, by autograd through the literal loop."""
    home = torch.cat([p.detach().flatten() for name, p in model.named_parameters() if name in names])
    with kept_double():
        return torch.autograd.functional.hessian(lambda vector: function(margins_at(model, vector, names)), home)


@pytest.fixture(scope="module", params=[False, True], ids=["two rows", "shared row"])
def batch(request):
    return collate(PAIRS, tiny.PAD, shared=request.param)


@pytest.fixture(scope="module")
def model():
    return tiny.llama(attention="sdpa", tied=True, **SMALL)


@pytest.fixture(scope="module")
def twin(model):
    """The same weights with attention written in a second way."""
    other = tiny.llama(attention="eager", tied=True, **SMALL)
    other.load_state_dict(model.state_dict())
    return other


@pytest.fixture(scope="module")
def names(model):
    return [name for name, _ in model.named_parameters()]


@pytest.fixture(scope="module")
def of_mean(twin, names):
    return dense(twin, names, lambda margins: margins.mean())


@pytest.mark.parametrize("kept", [True, False])
def test_the_hessian_of_the_mean_margin_on_all_parameters(model, batch, of_mean, kept, monkeypatch):
    monkeypatch.setattr("gapo.model.passes.batch_tokens", lambda model: 12)  # several chunks
    found = hessian(model, batch, mean_margin(3), list(model.parameters()), kept=kept)
    v = torch.linspace(-1, 2, found.size, dtype=torch.float64).cos()
    assert of_mean.abs().max() > 0.1
    torch.testing.assert_close(found.times(v), of_mean @ v, rtol=0, atol=1e-10)


def test_all_columns_and_the_gradient(model, batch, of_mean, twin):
    found = hessian(model, batch, mean_margin(3), list(model.parameters()))
    torch.testing.assert_close(found.dense(), of_mean, rtol=0, atol=1e-10)
    with kept_double():
        truth = torch.cat([part.flatten() for part in literal.mean_margin_gradient(twin, PAIRS)])
    torch.testing.assert_close(found.gradient, truth, rtol=0, atol=1e-10)


@pytest.mark.parametrize("pair", range(3))
def test_the_hessian_of_one_pairs_margin_on_some_parameters(model, twin, batch, pair):
    names = [name for name, _ in model.named_parameters() if "mlp" in name]
    truth = dense(twin, names, lambda margins: margins[pair])
    found = hessian(model, batch.take(pair), mean_margin(1), parameters_in_scope(model, "mlp"))
    torch.testing.assert_close(found.dense(), truth, rtol=0, atol=1e-10)


def test_the_hessian_of_losses(model, twin, batch):
    """SimPO's and GAPO's by their formulas; GAPO's anchor stays where it is."""
    names = [name for name, _ in model.named_parameters() if "k_proj" in name]
    with precise(model):
        anchor = probe(model, [batch], ANCHOR).anchor
    gapo, simpo = get_objective("gapo", beta=3.0, gamma=0.4), get_objective("simpo", beta=2.0, gamma=0.3)
    cases = [
        (simpo, {}, lambda margins: -logsigmoid(2 * margins - 0.3).mean()),
        (gapo, {"anchor": anchor}, lambda margins: -logsigmoid(3 * (margins - anchor.margin) - 0.4).mean()),
    ]
    for objective, needs, by_hand in cases:
        truth = dense(twin, names, by_hand)
        assert truth.abs().max() > 1e-3
        found = hessian(model, batch, mean_loss(objective, 3, needs), parameters_in_scope(model, "k_proj"))
        torch.testing.assert_close(found.dense(), truth, rtol=0, atol=1e-10)


def test_needs_follow_their_pairs_into_chunks(model, batch, monkeypatch):
    parameters = parameters_in_scope(model, "self_attn")
    reference = forward(tiny.llama(seed=7, tied=True, **SMALL), [batch])
    share = mean_loss(get_objective("dpo", beta=1.0), 3, {"reference": reference})
    whole = hessian(model, batch, share, parameters)
    monkeypatch.setattr("gapo.model.passes.batch_tokens", lambda model: 1)
    parts = hessian(model, batch, share, parameters)
    v = torch.linspace(-1, 2, whole.size, dtype=torch.float64).cos()
    torch.testing.assert_close(parts.times(v), whole.times(v), rtol=0, atol=1e-11)


@pytest.mark.parametrize("make", [tiny.llama, tiny.gpt_neox, tiny.gemma2], ids=lambda make: make.__name__)
def test_the_head_alone_is_the_output_parameter_where_it_is_not_tied(make, batch):
    """One copy of the model serves; hidden states are held, and Gemma's softcap bends the logits."""
    model = make(tie_word_embeddings=False) if make is tiny.gemma2 else make()
    head, same = (
        head_hessian(model, batch, mean_margin(3)),
        hessian(model, batch, mean_margin(3), parameters_in_scope(model, "lm_head")),
    )
    v = torch.linspace(-1, 2, head.size, dtype=torch.float64).cos()
    assert head.times(v).abs().max() > 1e-3
    torch.testing.assert_close(head.times(v), same.times(v), rtol=0, atol=1e-11)


def test_a_tied_head_counts_in_its_second_role_only(model, twin, batch):
    """Truth: the same weights in a model where the two layers are apart."""
    apart = tiny.llama(attention="eager", **SMALL)
    state = twin.state_dict()
    apart.load_state_dict({**state, "lm_head.weight": state["model.embed_tokens.weight"]})
    truth = dense(apart, ["lm_head.weight"], lambda margins: margins.mean())
    torch.testing.assert_close(head_hessian(model, batch, mean_margin(3)).dense(), truth, rtol=0, atol=1e-10)
    both = hessian(model, batch, mean_margin(3), parameters_in_scope(model, "lm_head")).dense()
    assert (both - truth).abs().max() > 0.01


def test_lanczos_finds_the_ends_of_the_dense_spectrum(model, batch, of_mean):
    truth = np.linalg.eigvalsh(of_mean.numpy())
    found = extreme_eigenvalues(hessian(model, batch, mean_margin(3), list(model.parameters())), bottom=3)
    assert found.lambda_max == pytest.approx(truth[-1], rel=1e-5)
    assert found.lambda_min == pytest.approx(truth[0], rel=1e-5)
    assert found.top_mean == pytest.approx(truth[-5:].mean(), rel=1e-5)
    np.testing.assert_allclose(found.top, truth[-5:][::-1], rtol=1e-5)
    np.testing.assert_allclose(found.bottom, truth[:3], rtol=1e-5)
    assert found.residual < 1e-2 * abs(truth).max()


def test_lanczos_on_the_head_and_on_a_loss(model, batch):
    share = mean_loss(get_objective("simpo"), 3)
    matrix = head_hessian(model, batch, share)
    truth = np.linalg.eigvalsh(matrix.dense().numpy())
    found = extreme_eigenvalues(matrix)
    assert (found.lambda_max, found.lambda_min) == pytest.approx((truth[-1], truth[0]), rel=1e-5)
    assert found.top_mean == pytest.approx(truth[-5:].mean(), rel=1e-5)


def test_float32_finds_the_same_ends(model, batch, of_mean):
    truth = np.linalg.eigvalsh(of_mean.numpy())
    single = tiny.llama(tied=True, dtype=torch.float32, **SMALL)
    found = extreme_eigenvalues(hessian(single, batch, mean_margin(3), list(single.parameters())))
    assert (found.lambda_max, found.lambda_min) == pytest.approx((truth[-1], truth[0]), rel=1e-4)
