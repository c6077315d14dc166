"""However many processes share an epoch, each pair comes once, in the order one process would have."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as some
from torch.utils.data import BatchSampler, SequentialSampler

from gapo.model.ranks import Ranks
from gapo.training.shares import ShareOfBatches


@given(some.integers(1, 60), some.integers(1, 5), some.integers(1, 7), some.booleans())
def test_shares_make_up_the_batches_of_one_process(pairs, batch_size, processes, drop_last):
    order = SequentialSampler(range(pairs))
    whole = list(BatchSampler(order, batch_size * processes, drop_last))
    samplers = [ShareOfBatches(order, batch_size, drop_last, Ranks(rank, processes)) for rank in range(processes)]
    shares = [list(sampler) for sampler in samplers]
    assert [len(share) for share in shares] == [len(whole)] * processes == [len(sampler) for sampler in samplers]
    assert [list(chain(*parts)) for parts in zip(*shares, strict=True)] == whole
    assert all(len(part) <= batch_size for share in shares for part in share)
    for parts in zip(*shares, strict=True):
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
