"""Numbers that go wrong in the middle of a run: at one step, for some pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor
from transformers import TrainerCallback

import gapo.model.policy


def poison_pairs(
    monkeypatch,
    run,
    step: int,
    ids: Collection[str],
    *,
    logps: tuple[float, float] | None = None,
    gradient: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """In that step the log-probs of these pairs are `logps`, or what flows back into them is `gradient` of it.

    Pairs are known by their prompts, wherever a micro-batch or a chunk has put them.
    """
    prompts = {tuple(pair.prompt) for pair in run.train_dataset.encoded if pair.id in ids}
    assert len(prompts) == len(ids)
    honest = gapo.model.policy._of_pairs

    def of_pairs(sums: Tensor, batch):
        if run.state.global_step + 1 != step:
            return honest(sums, batch)
        marked = torch.tensor([_prompt(batch, i) in prompts for i in range(len(batch))]).repeat(2)
        if gradient is not None and sums.requires_grad:
            sums.register_hook(lambda flowing: torch.where(marked, gradient(flowing), flowing))
        if logps is not None:
            values = torch.tensor(logps, dtype=sums.dtype).repeat_interleave(len(batch))
            sums = torch.where(marked, values, sums)
        return honest(sums, batch)

    monkeypatch.setattr(gapo.model.policy, "_of_pairs", of_pairs)


def _prompt(batch, pair: int) -> tuple[int, ...]:
    return tuple(batch.input_ids[pair][batch.segments[pair] == 0].tolist())


class BreakWeight(TrainerCallback):
    """After that step's update, one entry of the last layer's norm is `value`."""

    def __init__(self, step: int, value: float) -> None:
        self.step, self.value = step, value

    def on_step_end(self, args, state, control, model, **_):
        if state.global_step == self.step:
            with torch.no_grad():
                model.model.norm.weight[0] = self.value
