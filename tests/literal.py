"""GAPO written a second time, as literally as the paper has it: a loop over pairs and tokens, full logits, autograd.

Nothing here is shared with the package but the token ids.
"""

from __future__ import annotations

import copy

import torch


def sequence_logp(model, prompt, response):
    """Sum of log p(token | everything before it) over the response, one unpadded forward."""
    ids = torch.tensor([prompt + response])
    logps = model(input_ids=ids).logits[0].log_softmax(-1)
    return sum(logps[len(prompt) + i - 1, token] for i, token in enumerate(response))


def margin(model, pair):
    chosen = sequence_logp(model, pair.prompt, pair.chosen) / len(pair.chosen)
    rejected = sequence_logp(model, pair.prompt, pair.rejected) / len(pair.rejected)
    return chosen - rejected


def mean_margin_gradient(model, pairs):
    mean = sum(margin(model, pair) for pair in pairs) / len(pairs)
    return torch.autograd.grad(mean, list(model.parameters()))


def norm(gradient):
    return torch.sqrt(sum((part**2).sum() for part in gradient))


def at_anchor(model, gradient, radius):
    """A copy of the model at theta - radius * g / ||g||."""
    moved = copy.deepcopy(model)
    length = norm(gradient)
    with torch.no_grad():
        for parameter, part in zip(moved.parameters(), gradient, strict=True):
            parameter -= radius * part / length
    return moved


def gaps(model, pairs, radius, anchor_pairs=None):
    """Gamma_i = M_i(theta) - M_i(theta~), with the graph of M_i(theta) kept."""
    anchor = at_anchor(model, mean_margin_gradient(model, anchor_pairs or pairs), radius)
    with torch.no_grad():
        anchored = [margin(anchor, pair) for pair in pairs]
    return [margin(model, pair) - old for pair, old in zip(pairs, anchored, strict=True)]


def loss(model, pairs, radius, beta, gamma):
    terms = [-torch.nn.functional.logsigmoid(beta * gap - gamma) for gap in gaps(model, pairs, radius)]
    return sum(terms) / len(terms)
