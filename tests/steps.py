"""One optimiser step without a trainer: the gradient it would hand to the optimiser."""

from __future__ import annotations

import torch

from gapo.anchor.engines import choose_engine
from gapo.training.step import StepPlan, micro_batch_backward


def step_gradient(model, objective, settings, batches, engine=None, step=1):
    """The mean loss, its gradient for every parameter, and the prepared micro-batches."""
    pairs = sum(len(batch) for batch in batches)
    engine = engine or choose_engine(settings, model, pairs).engine(settings)
    prepared = StepPlan(objective, engine).prepare(model, batches, [torch.arange(len(b)) for b in batches], step)
    loss = sum(float(part.known.loss.sum()) for part in prepared.parts) / pairs
    if prepared.gradient is not None:
        return loss, prepared.gradient, prepared.parts
    model.zero_grad()
    for part in prepared.parts:
        micro_batch_backward(model, objective, part, pairs)
    return loss, [p.grad for p in model.parameters()], prepared.parts
