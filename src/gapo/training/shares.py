"""How the pairs of a step are shared out among processes: each pair once, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, Sampler

from gapo.model.ranks import Ranks

_KEPT = (
    "collate_fn",
    "num_workers",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
)


class ShareOfBatches(BatchSampler):
    """This rank's part of each batch of all ranks. A short batch is cut evenly, so a rank may have no pair of it.

    accelerate's own sharding repeats pairs until all ranks have as many, which would count those pairs twice.
    """

    def __init__(self, sampler: Sampler[int], batch_size: int, drop_last: bool, ranks: Ranks) -> None:
        super().__init__(sampler, batch_size * ranks.total, drop_last)
        self._ranks = ranks

    def __iter__(self) -> Iterator[list[int]]:
        here, total = self._ranks.here, self._ranks.total
        for batch in super().__iter__():
            yield batch[here * len(batch) // total : (here + 1) * len(batch) // total]


def shared_out(loader: Any, batch_size: int, ranks: Ranks) -> Any:
    """accelerate's loader with the same order of pairs, and each rank's own share of every batch."""
    from accelerate.data_loader import DataLoaderShard

    sampler = loader.batch_sampler.sampler
    share = ShareOfBatches(sampler, batch_size, bool(loader.batch_sampler.drop_last), ranks)
    options = {name: getattr(loader, name) for name in _KEPT}
    return DataLoaderShard(loader.dataset, device=loader.device, batch_sampler=share, **options)
