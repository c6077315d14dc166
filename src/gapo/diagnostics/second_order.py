"""Second derivatives of margins and losses: products of a Hessian with vectors, on any parameters.

What serves training has one derivative only: the fused head, and the attention kernels of sdpa. `smooth` puts the plain
head and sdpa's `math` kernel in their place, which have all of them; `eager` attention has them too. Layer norms become
plain as well, whose third derivative is wrong otherwise. A float64 model (`gapo.model.double.double_copy`) computes in
float64 throughout inside it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import layer_norm
from torch.overrides import TorchFunctionMode

from gapo.errors import InputError
from gapo.model.double import kept_double
from gapo.model.head import Head, head_of, plain_head
from gapo.model.logps import PairLogps
from gapo.model.passes import chunks_of
from gapo.model.policy import batch_hidden, causal_lm, logps_of_hidden, pair_logps
from gapo.objectives import Objective
from gapo.pairs.collate import PairBatch

Vector = Float[Tensor, " entries"]
Share = Callable[[PairLogps, Tensor], Tensor]
"""What some pairs add to a number over all pairs, given their log-probs and places in the batch."""
Shares = Callable[[], Iterable[Tensor]]


@contextmanager
def smooth(model: nn.Module) -> Iterator[None]:
    """Inside, log-probs of this model have derivatives of every order."""
    kernel = str(causal_lm(model).config._attn_implementation)
    if "flash" in kernel or "flex" in kernel:
        raise InputError(
            f"the attention kernel {kernel} has no second derivative; load the model with attn_implementation='sdpa' "
            "or 'eager'"
        )
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(plain_head())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(_PlainLayerNorm())
        stack.enter_context(precise(model))
        yield


@contextmanager
def precise(model: nn.Module) -> Iterator[None]:
    """Inside, a float64 model rounds to nothing less; any other is left alone."""
    if next(model.parameters()).dtype != torch.float64:
        yield
        return
    with kept_double():
        yield


class _PlainLayerNorm(TorchFunctionMode):
    """Layer norms of elementary operations: from the third derivative on, torch's own are wrong without a sign.

    They take a row's mean and spread for constants there (pytorch issue 175754).
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is layer_norm or func is torch.layer_norm:
            func = _layer_norm
        return func(*args, **(kwargs or {}))


def _layer_norm(
    given: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Tensor:
    over = tuple(range(-len(normalized_shape), 0))
    centred = given - given.mean(over, keepdim=True)
    normed = centred * torch.rsqrt((centred * centred).mean(over, keepdim=True) + eps)
    if weight is not None:
        normed = normed * weight
    return normed + bias if bias is not None else normed


# ---- numbers to differentiate ----


def mean_margin(pairs: int) -> Share:
    """mean_i M_i over a batch of so many pairs; of `batch.take(i)`, which has one, it is M_i itself."""
    return lambda logps, _: logps.margin.sum() / pairs


def mean_loss(objective: Objective, pairs: int, needs: Mapping[str, object] | None = None) -> Share:
    """mean_i of the objective's losses. `needs`: what it asks for beside the policy, for all pairs of the batch.

    They count as constants, as in training: GAPO's anchor stays where it is while theta moves. Losses that mix the
    pairs of a step (Dr.DPO) are refused, since their Hessian is no sum over pairs.
    """
    given = dict(needs or {})
    missing = [name for name in objective.needs if name != "policy" and name not in given]
    if missing:
        raise InputError(f"{objective.name} needs {' and '.join(missing)} to have a loss; give needs={{...}}")
    if objective.coupled:
        raise InputError(f"{objective.name} mixes the pairs of a step: its Hessian is not a sum over pairs")

    def share(logps: PairLogps, places: Tensor) -> Tensor:
        own = {name: _at(given[name], places) for name in objective.needs if name != "policy"}
        return objective(policy=logps, **own).sum() / pairs

    return share


def _at(value: object, places: Tensor) -> object:
    """What is given for each pair at these places; what is one for all as it is."""
    per_pair = isinstance(value, PairLogps) or (isinstance(value, Tensor) and value.dim() > 0)
    return value[places] if per_pair else value  # type: ignore[index]


# ---- the matrix ----


class Hessian:
    """H = d^2 f / d theta^2 over some parameters, known by its products with vectors; f is a sum of shares.

    A vector has one entry for each weight, the parameters one after the other. With `kept` the graph of the gradient
    is made once and stays, so a product costs one backward through it; without, it is made again for each product, one
    share at a time, and memory stays at one share's.
    """

    def __init__(self, shares: Shares, parameters: Sequence[Tensor], *, kept: bool = True) -> None:
        if not parameters or not all(p.requires_grad for p in parameters):
            raise InputError("a Hessian is taken in trained parameters; none were given, or some are frozen")
        self.parameters = tuple(parameters)
        self.size = sum(p.numel() for p in parameters)
        self.products = 0
        self._shares = shares
        self._slopes = list(self._made()) if kept else None

    def _made(self) -> Iterator[tuple[Tensor, ...]]:
        """The gradient of each share, with its graph."""
        for share in self._shares():
            yield torch.autograd.grad(
                share, self.parameters, create_graph=True, allow_unused=True, materialize_grads=True
            )

    @property
    def gradient(self) -> Vector:
        """df / d theta."""
        parts = [torch.cat([g.detach().flatten() for g in slopes]) for slopes in self._slopes or self._made()]
        return torch.stack(parts).sum(0)

    def times(self, vector: Vector) -> Vector:
        """H v."""
        self.products += 1
        along = self._in_shape(vector)
        total = torch.zeros_like(vector)
        for slopes in self._slopes if self._slopes is not None else self._made():
            bent = [(g, v) for g, v in zip(slopes, along, strict=True) if g.requires_grad]  # others are constant
            if not bent:
                continue
            outputs, weights = zip(*bent, strict=True)
            products = torch.autograd.grad(
                outputs,
                self.parameters,
                weights,
                retain_graph=self._slopes is not None,
                allow_unused=True,
                materialize_grads=True,
            )
            total = total + torch.cat([h.flatten() for h in products])
        return total

    def times_array(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """The same for numpy, computed in the parameters' own precision."""
        like = self.parameters[0]
        given = torch.as_tensor(np.ascontiguousarray(vector).ravel(), dtype=like.dtype, device=like.device)
        found: NDArray[np.float64] = self.times(given).double().cpu().numpy()
        return found

    def dense(self) -> Float[Tensor, "entries entries"]:
        """All of it, column by column: for small models."""
        like = self.parameters[0]
        unit = torch.eye(self.size, dtype=like.dtype, device=like.device)
        return torch.stack([self.times(row) for row in unit], dim=1)

    def _in_shape(self, vector: Vector) -> list[Tensor]:
        parts = vector.split([p.numel() for p in self.parameters])
        return [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)]


def hessian(
    model: nn.Module, batch: PairBatch, share: Share, parameters: Sequence[Tensor], *, kept: bool = True
) -> Hessian:
    """The Hessian of a sum over pairs, such as `mean_margin(len(batch))`, on these parameters of the model."""

    def shares() -> Iterator[Tensor]:
        for places, chunk in chunks_of(model, batch):
            with smooth(model):
                value = share(pair_logps(model, chunk), places)
            yield value

    return Hessian(shares, parameters, kept=kept)


def head_hessian(model: nn.Module, batch: PairBatch, share: Share, *, kept: bool = True) -> Hessian:
    """The Hessian in the output layer alone, with the hidden states held: the paper's "LM head".

    A layer tied to the embeddings counts in its second role only; `hessian` on that parameter has both.
    """
    head = head_of(causal_lm(model))
    if not head.fused:
        raise InputError("the output layer is more than a matrix (an adapter, a hook or a shard); merge adapters first")
    own = Head(copy.deepcopy(head.layer), head.softcap, head.scale)
    with torch.no_grad(), precise(model):
        seen = [(places, chunk, batch_hidden(model, chunk)) for places, chunk in chunks_of(model, batch)]

    def shares() -> Iterator[Tensor]:
        for places, chunk, hidden in seen:
            with smooth(model):
                value = share(logps_of_hidden(own, hidden, chunk), places)
            yield value

    return Hessian(shares, [p.requires_grad_() for p in own.layer.parameters()], kept=kept)
