"""The gradient of every pair's margin from one batched forward and backward.

A linear layer's share of one row's gradient is `slope^T @ input` of that row alone. So the batch goes through the
model once, and where the backward passes a trained layer, its gradient is summed pair by pair and not over the batch.
The arithmetic is that of an ordinary backward; the memory is one gradient a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from gapo.model.head import CHUNK_ENTRIES, Head, head_of
from gapo.model.logps import PairLogps
from gapo.model.policy import causal_lm, pair_logps
from gapo.pairs.collate import PairBatch, collate
from gapo.pairs.encode import EncodedPair

PairGradient = Float[Tensor, "pairs ..."]
AGREE = 1e-3  # of the largest entry; sums in another order differ by less, a layer that was missed by more


def margin_gradients(
    model: nn.Module, batch: PairBatch, into: Sequence[PairGradient] | None = None
) -> tuple[PairLogps, list[PairGradient]]:
    """The log-probs, and G_i = dM_i/dtheta: `[pairs, *shape]` for each trained parameter, in their order.

    Exact for models without an `obstacle`; any other needs one backward a pair. `into` is memory to write them to.
    """
    head = head_of(causal_lm(model))
    trained = [p for p in model.parameters() if p.requires_grad]
    passing = _Passing(len(batch), dict(zip(trained, into, strict=True)) if into is not None else {})
    with torch.enable_grad(), _watched(model, head, passing):
        policy = pair_logps(model, batch)
        total = policy.margin.sum()
    # asked for no further than the roots, autograd makes no weight gradient of the whole batch; there are none where
    # the embeddings are frozen and their output asks for a gradient all the same (enable_input_require_grads)
    if trained:
        torch.autograd.grad(total, passing.roots or trained, allow_unused=True)
    if head.layer.weight.requires_grad:  # type: ignore[union-attr]
        _add_head(head, batch, passing)
    gradients = [passing.gradient(p) for p in trained]
    passing.forget()
    return policy.detach(), gradients


def obstacle(model: nn.Module) -> str | None:
    """Why `margin_gradients` cannot serve this model, or None.

    Every trained layer must be of a known kind, and on two short pairs the gradients must add up to those of an
    ordinary backward: a known layer may be used in an unknown way. That trial needs room for three gradients.
    """
    head = head_of(causal_lm(model)).layer
    if any(p.requires_grad for p in head.parameters()):
        if type(head) is not nn.Linear:
            return f"the output layer is a {type(head).__name__}, not a plain linear layer"
        if head.bias is not None and head.bias.requires_grad:
            return "the output layer has a trained bias"
    for name, module in model.named_modules():
        if module is not head and _trained(module) and _rule(module) is None:
            return f"{name} is a {type(module).__name__}, whose gradient is not known pair by pair"
    return _disagreement(model)


@dataclass
class _Passing:
    """What has been kept of a pass."""

    pairs: int
    into: dict[nn.Parameter, Tensor] = field(default_factory=dict)
    roots: list[Tensor] = field(default_factory=list)  # outputs of trained layers with no trained layer before them
    hidden: Tensor | None = None  # after the final norm
    found: dict[nn.Parameter, Tensor] = field(default_factory=dict)

    def gradient(self, parameter: nn.Parameter) -> PairGradient:
        """Summed over the uses of the parameter so far."""
        if parameter not in self.found:
            place = self.into.get(parameter)
            shape = (self.pairs, *parameter.shape)
            self.found[parameter] = parameter.new_zeros(shape) if place is None else place.zero_()
        return self.found[parameter]

    def forget(self) -> None:
        """The outputs' hooks hold this object, and it holds outputs: gradients must not wait for the collector."""
        self.roots, self.into, self.found, self.hidden = [], {}, {}, None

    def by_pair(self, rows: Tensor) -> Tensor:
        """`[pairs, tokens, ...]`: rows i and i + pairs belong to pair i, one after the other."""
        return rows if len(rows) == self.pairs else torch.cat(rows.split(self.pairs), dim=1)

    def add_products(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """left^T @ right over the tokens of each pair."""
        left, right = (self.by_pair(side.to(parameter.dtype).flatten(1, -2)) for side in (left, right))
        if parameter in self.found:
            self.found[parameter].baddbmm_(left.mT, right)
        else:
            self.found[parameter] = torch.bmm(left.mT, right, out=self.into.get(parameter))

    def add_sums(self, parameter: nn.Parameter, terms: Tensor) -> None:
        """The sum over the tokens of each pair."""
        of_rows = terms.to(parameter.dtype).flatten(1, -2).sum(1)
        gradient = self.gradient(parameter)
        gradient += of_rows.unflatten(0, (-1, self.pairs)).sum(0)


class _RowsLostError(Exception):
    """A layer does not see the rows of the batch."""


@contextmanager
def _watched(model: nn.Module, head: Head, passing: _Passing) -> Iterator[None]:
    """Inside, each trained layer but the head leaves a hook on its output, which will see the slope come back."""

    def after(rule: _Rule, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if not inputs or output.ndim < 3 or len(output) not in (passing.pairs, 2 * passing.pairs):
            raise _RowsLostError(f"a {type(layer).__name__} does not keep the rows of a batch apart")
        if not output.requires_grad:
            raise _RowsLostError(f"a {type(layer).__name__} runs out of autograd's sight and again in backward")
        if not inputs[0].requires_grad:
            passing.roots.append(output)
        output.register_hook(partial(rule, passing, layer, inputs[0].detach(), output.detach()))

    def after_backbone(_: nn.Module, __: Any, output: Any) -> None:
        passing.hidden = output.last_hidden_state.detach()

    inner = causal_lm(model)
    handles = [getattr(inner, str(inner.base_model_prefix)).register_forward_hook(after_backbone)]
    for module in model.modules():
        if module is not head.layer and _trained(module) and (rule := _rule(module)):
            handles.append(module.register_forward_hook(partial(after, rule)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# ---- one rule for each kind of layer: input, output and slope in, gradients added ----

_Rule = Callable[[_Passing, Any, Tensor, Tensor, Tensor], None]


def _trained(module: nn.Module) -> bool:
    return any(p.requires_grad for p in module.parameters(recurse=False))


def _rule(module: Any) -> _Rule | None:
    """Chosen by the code a layer runs, not by what it inherits from."""
    forward = type(module).forward
    if forward is nn.Linear.forward:
        return _linear
    scaled = type(module).__name__.endswith("ScaledWordEmbedding") and isinstance(module, nn.Embedding)  # Gemma
    if forward is nn.Embedding.forward or scaled:
        plain = module.max_norm is None and not module.scale_grad_by_freq
        return _embedding if plain else None
    own = dict(module.named_parameters(recurse=False))
    elementwise = "weight" in own and set(own) <= {"weight", "bias"} and all(p.ndim == 1 for p in own.values())
    return _norm if elementwise and type(module).__name__.endswith("Norm") else None


def _linear(passing: _Passing, layer: Any, given: Tensor, _: Tensor, slope: Tensor) -> None:
    if layer.weight.requires_grad:
        passing.add_products(layer.weight, slope, given)
    if layer.bias is not None and layer.bias.requires_grad:
        passing.add_sums(layer.bias, slope)


def _embedding(passing: _Passing, layer: Any, ids: Tensor, _: Tensor, slope: Tensor) -> None:
    slope = slope * getattr(layer, "embed_scale", 1)
    if layer.padding_idx is not None:
        slope = slope.masked_fill((ids == layer.padding_idx)[..., None], 0)  # as autograd has it
    table = passing.gradient(layer.weight).flatten(0, 1)
    first = torch.arange(passing.pairs, device=ids.device)[:, None] * layer.num_embeddings
    entries = (passing.by_pair(ids) + first).flatten()
    table.index_add_(0, entries, passing.by_pair(slope).flatten(0, 1).to(table.dtype))


def _norm(passing: _Passing, layer: Any, given: Tensor, output: Tensor, slope: Tensor) -> None:
    """Affine in its weight, so a weight greater by 1 shows how the output depends on it, in any kind of norm."""
    if layer.weight.requires_grad:
        greater = functional_call(layer, {"weight": layer.weight.detach() + 1}, (given,))
        passing.add_sums(layer.weight, slope * (greater - output))
    if getattr(layer, "bias", None) is not None and layer.bias.requires_grad:
        passing.add_sums(layer.bias, slope)


# ---- the output layer, which sees response tokens and not rows ----


@torch.no_grad()
def _add_head(head: Head, batch: PairBatch, passing: _Passing) -> None:
    """d logp(t) / d logits = onehot(t) - p, through cap and scale; the logits of some pairs at a time."""
    assert passing.hidden is not None
    weight: Any = head.layer.weight
    table, n = passing.gradient(weight), passing.pairs
    rows, positions, ids, owners = batch.response_tokens()
    of_token = 1 / torch.bincount(owners, minlength=2 * n).to(weight.dtype)  # dM / dlogp(t)
    of_token[n:] *= -1
    counts = torch.bincount(owners % n, minlength=n).tolist()
    of_pair = (owners % n).argsort().split(counts)
    together = max(1, CHUNK_ENTRIES // (head.vocabulary * max(counts)))
    for first in range(0, n, together):
        group = slice(first, first + together)
        mine = torch.cat(of_pair[group])
        hidden = passing.hidden[rows[mine], positions[mine]]
        logits = head.logits(hidden)
        slope = -logits.softmax(1)
        slope[torch.arange(len(mine), device=slope.device), ids[mine]] += 1
        slope *= head.scale * of_token[owners[mine], None]
        if head.softcap is not None:
            slope *= 1 - (logits / head.softcap) ** 2
        parts = (x.to(weight.dtype).split(counts[group]) for x in (slope, hidden))
        for own, left, right in zip(table[group], *parts, strict=True):
            own.addmm_(left.T, right)


def _disagreement(model: nn.Module) -> str | None:
    """Which gradient of two made-up pairs does not add up to what an ordinary backward finds."""
    vocabulary = head_of(causal_lm(model)).vocabulary
    ids = [(k * 7919 + 1) % vocabulary for k in range(16)]
    pairs = [EncodedPair("0", ids[:3], ids[3:6], ids[6:8]), EncodedPair("1", ids[8:10], ids[10:11], ids[11:])]
    batch = collate(pairs, pad_id=0).to(next(model.parameters()).device)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    try:
        _, found = margin_gradients(model, batch)
    except _RowsLostError as error:
        return str(error)
    with torch.enable_grad():
        margin = pair_logps(model, batch).margin.sum()
    wanted = torch.autograd.grad(margin, list(trained.values()), allow_unused=True, materialize_grads=True)
    for name, ours, theirs in zip(trained, found, wanted, strict=True):
        apart = (ours.sum(0) - theirs.to_dense()).abs().max()
        if not apart <= AGREE * theirs.to_dense().abs().max():
            return f"the gradients of {name} do not add up to that of the batch"
    return None
