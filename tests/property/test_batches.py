"""Laws of the two layouts and of cutting a batch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from gapo.pairs.collate import PairBatch, collate, row_width
from gapo.pairs.encode import EncodedPair

ids = st.lists(st.integers(3, tiny.VOCABULARY - 1), min_size=1, max_size=9)
pairs = st.lists(st.builds(EncodedPair, st.just("pair"), ids, ids, ids), min_size=1, max_size=7)


@given(pairs, st.booleans(), st.integers(1, 120))
def test_chunks_are_the_batch_cut_by_length(pairs, shared, budget):
    batch = collate(pairs, tiny.PAD, shared)
    chunks = batch.chunks(budget)
    assert sorted(i for indices, _ in chunks for i in indices.tolist()) == list(range(len(pairs)))
    widths = [row_width(pairs[i], shared) for indices, _ in chunks for i in indices.tolist()]
    assert widths == sorted(widths)
    for indices, chunk in chunks:
        expected = collate([pairs[i] for i in indices.tolist()], tiny.PAD, shared)
        assert torch.equal(chunk.input_ids, expected.input_ids)
        assert torch.equal(chunk.segments, expected.segments)
        assert chunk.shared is shared
        assert len(chunk) == 1 or chunk.input_ids.numel() <= budget


@given(pairs)
def test_both_layouts_predict_the_same_tokens_for_the_same_owners(pairs):
    n = len(pairs)
    sequences = [pair.chosen for pair in pairs] + [pair.rejected for pair in pairs]
    for shared in (False, True):
        batch = collate(pairs, tiny.PAD, shared)
        rows, positions, ids, owners = batch.response_tokens()
        assert [ids[owners == i].tolist() for i in range(2 * n)] == sequences
        before = batch.input_ids[rows, positions]
        for i, sequence in enumerate(sequences):
            assert before[owners == i].tolist() == [pairs[i % n].prompt[-1], *sequence[:-1]]
        places = batch.position_ids[rows, positions]
        for i, sequence in enumerate(sequences):
            start = len(pairs[i % n].prompt) - 1
            assert places[owners == i].tolist() == list(range(start, start + len(sequence)))


@given(pairs, st.booleans())
def test_the_layout_is_read_from_the_tensors(pairs, shared):
    batch = collate(pairs, tiny.PAD, shared)
    found = PairBatch.of({"input_ids": batch.input_ids, "segments": batch.segments, "index": torch.zeros(1)})
    assert found == batch
    assert len(found) == len(pairs)
    assert found.tokens == sum(
        (1 if shared else 2) * len(pair.prompt) + len(pair.chosen) + len(pair.rejected) for pair in pairs
    )


@given(pairs, st.booleans(), st.integers(1, 6))
def test_batches_joined_are_the_batch_of_all_pairs(pairs, shared, cut):
    batches = [collate(pairs[i : i + cut], tiny.PAD, shared) for i in range(0, len(pairs), cut)]
    joined, whole = PairBatch.cat(batches), collate(pairs, tiny.PAD, shared)
    assert torch.equal(joined.input_ids, whole.input_ids)
    assert torch.equal(joined.segments, whole.segments)
    assert joined.shared is shared
