"""The gradient bank: G_i, the gradient of every pair's margin, kept for one step.

Everything a step needs of gradients is then a sum over it: the direction g = mean G_i, the norms and dot products of
the diagnostics, and the step's own gradient sum_i c_i * G_i. Sums run over blocks of columns that fit in a cache, in
fp32 (float64 for float64 weights) whatever the bank's type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapo.model.ranks import ALONE, Ranks

BLOCK_ENTRIES = {"cpu": 2**21}  # 8 MB in fp32: much smaller and the calls cost more than the sums
BLOCK_ENTRIES_ELSEWHERE = 2**24


@dataclass(frozen=True)
class Sums:
    """Over some pairs and some parameters: g = mean G_i, ||g||, and for each pair ||G_i|| and G_i . g."""

    gradient: tuple[Tensor, ...]
    norm: float
    norms: Tensor
    dots: Tensor


class GradientBank:
    """One row of gradient a pair, one table a parameter. Tables are kept from step to step."""

    def __init__(self, parameters: Sequence[nn.Parameter], dtype: torch.dtype | None = None) -> None:
        """`dtype` None keeps each gradient in its parameter's own type."""
        self.parameters = tuple(parameters)
        self._dtype = dtype
        self._tables: list[Tensor] = []
        self._scratch: Tensor | None = None
        self._pairs = 0

    def __len__(self) -> int:
        return self._pairs

    def reserve(self, pairs: int, *, touch: bool = False) -> None:
        """Room for so many pairs. Memory is there only once it is touched, which `touch` does at once."""
        if not self._tables or len(self._tables[0]) < pairs:  # what was there is of no use any more
            self.release()
            self._tables = [
                torch.empty(pairs, p.numel(), dtype=self._dtype or p.dtype, device=p.device) for p in self.parameters
            ]
            if touch:
                for table in self._tables:
                    table.zero_()
        self._pairs = pairs

    def release(self) -> None:
        """Give the memory back."""
        self._tables, self._scratch, self._pairs = [], None, 0

    @contextmanager
    def catching(self) -> Iterator[list[int]]:
        """Inside, the gradient of each backward goes to the row named in the list given out, and leaves `.grad` empty.

        A hook on each parameter moves its gradient as soon as it is there: one pair's gradient never stands in full
        beside the bank. Under reentrant checkpointing every layer has a backward of its own, so a parameter that
        several layers share comes in parts, which are added up.
        """
        row = [0]
        caught: list[set[int]] = [set() for _ in self.parameters]
        tables = {p: (table, rows) for p, table, rows in zip(self.parameters, self._tables, caught, strict=True)}

        def catch(parameter: Tensor) -> None:
            table, rows = tables[parameter]  # type: ignore[index]
            part = parameter.grad.flatten()  # type: ignore[union-attr]
            table[row[0]] = table[row[0]] + part if row[0] in rows else part
            rows.add(row[0])
            parameter.grad = None

        hooks = [p.register_post_accumulate_grad_hook(catch) for p in self.parameters]  # type: ignore[no-untyped-call]
        try:
            yield row
        finally:
            for hook in hooks:
                hook.remove()
        for table, rows in zip(self._tables, caught, strict=True):
            for missing in set(range(self._pairs)) - rows:  # the margin does not depend on this parameter
                table[missing] = 0

    def rows(self) -> list[Tensor] | None:
        """The tables as `[pairs, *shape]`, to be written to; None where they keep another type than the gradients."""
        if any(table.dtype != p.dtype for table, p in zip(self._tables, self.parameters, strict=True)):
            return None
        tables = (table[: self._pairs] for table in self._tables)
        return [table.view(-1, *p.shape) for table, p in zip(tables, self.parameters, strict=True)]

    def put(self, rows: Tensor, gradients: Sequence[Tensor]) -> None:
        """Store the gradients of several pairs, one `[pairs, *shape]` tensor a parameter."""
        for table, part in zip(self._tables, gradients, strict=True):
            table[rows] = part.reshape(len(rows), -1).to(table.dtype)

    def sums(self, pairs: slice, scope: Sequence[nn.Parameter], ranks: Ranks = ALONE) -> Sums:
        """One pass: g over the pairs of all ranks, its norm, each own pair's norm and dot product in scope."""
        count = len(range(*pairs.indices(self._pairs)))
        together = max(1, ranks.count(count))
        squares = torch.zeros(count, dtype=torch.float64)
        dots = torch.zeros(count, dtype=torch.float64)
        total = 0.0
        gradient = []
        for k in self._places(scope):
            mean = self._empty_like(k)
            share = torch.full_like(mean[:1], 1 / together).expand(count)
            for columns, block in self._blocks(k, pairs, ranks):
                mean[columns] = ranks.sum(share @ block)
                dots += (block @ mean[columns]).cpu()
                squares += torch.linalg.vector_norm(block, dim=1).cpu().double() ** 2
            total += float(torch.linalg.vector_norm(mean)) ** 2
            gradient.append(mean.view(self.parameters[k].shape))
        return Sums(tuple(gradient), total**0.5, squares.sqrt(), dots)

    def add_weighted(self, coefficients: Tensor, onto: Sequence[Tensor]) -> None:
        """Add sum_i c_i * G_i to what is there of every parameter's gradient."""
        for k, total in enumerate(onto):
            flat, weights = total.view(-1), coefficients.to(self._tables[k].device, self._exact(k))
            for columns, block in self._blocks(k, slice(None)):
                flat[columns] += weights @ block

    def parts(self, scope: Sequence[nn.Parameter]) -> Iterator[tuple[int, slice, Tensor]]:
        """All gradients in parts: the place in scope, the columns, and these columns of every pair."""
        for place, k in enumerate(self._places(scope)):
            for columns, block in self._blocks(k, slice(None)):
                yield place, columns, block

    def own(self, pair: int, scope: Sequence[nn.Parameter]) -> tuple[Tensor, ...]:
        """A copy of one pair's G_i."""
        rows = ((k, self._tables[k][pair].to(self._exact(k), copy=True)) for k in self._places(scope))
        return tuple(row.view(self.parameters[k].shape) for k, row in rows)

    def along(self, direction: Sequence[Tensor], pairs: slice, scope: Sequence[nn.Parameter]) -> Tensor:
        """G_i . direction for every pair."""
        dots = torch.zeros(len(range(*pairs.indices(self._pairs))), dtype=torch.float64)
        for k, part in zip(self._places(scope), direction, strict=True):
            flat = part.reshape(-1).to(self._exact(k))
            for columns, block in self._blocks(k, pairs):
                dots += (block @ flat[columns]).cpu()
        return dots

    def gram(self, pairs: slice, scope: Sequence[nn.Parameter]) -> Tensor:
        """G_i . G_j for every two pairs, in float64."""
        count = len(range(*pairs.indices(self._pairs)))
        products = torch.zeros(count, count, dtype=torch.float64)
        for k in self._places(scope):
            for _, block in self._blocks(k, pairs):
                products += (block @ block.T).cpu()
        return products

    def weighted(
        self, coefficients: Tensor, ranks: Ranks = ALONE, scope: Sequence[nn.Parameter] | None = None
    ) -> list[Tensor]:
        """sum_i c_i * G_i over the pairs of all ranks, for every parameter (in scope): the step's gradient."""
        gradient = []
        for k in range(len(self.parameters)) if scope is None else self._places(scope):
            parameter = self.parameters[k]
            total = self._empty_like(k)
            weights = coefficients.to(total)
            for columns, block in self._blocks(k, slice(None), ranks):
                total[columns] = ranks.sum(weights @ block)
            gradient.append(total.view(parameter.shape).to(parameter.dtype))
        return gradient

    def cosine(self, one: Tensor, other: Tensor, ranks: Ranks = ALONE) -> float:
        """The cosine between two weighted sums over the pairs of all ranks, without keeping either."""
        gram = torch.zeros(2, 2, dtype=torch.float64)
        both = torch.stack([one, other])
        for k in range(len(self.parameters)):
            weights = both.to(self._tables[k].device, self._exact(k))
            for _, block in self._blocks(k, slice(None), ranks):
                both_sums = ranks.sum(weights @ block)
                gram += (both_sums @ both_sums.T).cpu()
        length = float((gram[0, 0] * gram[1, 1]).sqrt())
        return float(gram[0, 1]) / length if length > 0 else float("nan")

    def _places(self, scope: Sequence[nn.Parameter]) -> list[int]:
        place = {id(p): k for k, p in enumerate(self.parameters)}
        return [place[id(p)] for p in scope]

    def _blocks(self, k: int, pairs: slice, ranks: Ranks = ALONE) -> Iterator[tuple[slice, Tensor]]:
        """The table in parts of some columns; ranks that add up their parts cut them alike."""
        table = self._tables[k][: self._pairs][pairs]
        entries = BLOCK_ENTRIES.get(table.device.type, BLOCK_ENTRIES_ELSEWHERE)
        width = max(1, entries // max(1, ranks.largest(len(table))))
        for start in range(0, table.shape[1], width):
            columns = slice(start, start + width)
            yield columns, self._exactly(table[:, columns], self._exact(k))

    def _exactly(self, block: Tensor, dtype: torch.dtype) -> Tensor:
        """The block in this type; a converted one in memory that the next will use again."""
        if block.dtype == dtype:
            return block
        if self._scratch is None or len(self._scratch) < block.numel():
            self._scratch = torch.empty(block.numel(), dtype=dtype, device=block.device)
        converted = self._scratch[: block.numel()].view(block.shape)
        converted[:] = block
        return converted

    def _exact(self, k: int) -> torch.dtype:
        return torch.promote_types(self._tables[k].dtype, torch.float32)

    def _empty_like(self, k: int) -> Tensor:
        return torch.empty(self._tables[k].shape[1], dtype=self._exact(k), device=self._tables[k].device)
