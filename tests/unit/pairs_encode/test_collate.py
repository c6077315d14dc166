"""Two rows a pair, all chosen rows first, padded on the right."""

import pytest
import torch

import tiny
from gapo.pairs.collate import PairBatch, collate, mismatched
from gapo.pairs.encode import EncodedPair

PAIRS = [EncodedPair("a", [5, 6, 7], [8, 9], [10]), EncodedPair("b", [11], [12], [13, 14, 15, 16])]


@pytest.fixture
def batch():
    return collate(PAIRS, pad_id=0)


def test_rows_are_prompt_and_response_with_the_chosen_ones_first(batch):
    assert batch.input_ids.tolist() == [[5, 6, 7, 8, 9], [11, 12, 0, 0, 0], [5, 6, 7, 10, 0], [11, 13, 14, 15, 16]]


def test_the_attention_mask_is_one_on_tokens_and_zero_on_padding(batch):
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_the_response_mask_is_true_on_response_tokens_only(batch):
    assert batch.response_mask.int().tolist() == [[0, 0, 0, 1, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 1, 1, 1, 1]]
    assert batch.response_mask.dtype == torch.bool


def test_a_padding_id_that_is_also_a_token_is_told_apart_by_the_masks():
    batch = collate([EncodedPair("a", [2, 5], [6, 2], [2])], pad_id=2)
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch.response_mask.int().tolist() == [[0, 0, 1, 1], [0, 0, 1, 0]]


def test_length_is_in_pairs_and_tokens_leave_out_padding(batch):
    assert len(batch) == 2
    assert batch.tokens == 5 + 2 + 4 + 5


def test_one_pair_is_taken_without_the_padding_it_does_not_need():
    pairs = tiny.random_pairs(6, seed=3)
    batch = collate(pairs, tiny.PAD)
    for i, pair in enumerate(pairs):
        alone, expected = batch.take(i), collate([pair], tiny.PAD)
        assert torch.equal(alone.input_ids, expected.input_ids)
        assert torch.equal(alone.attention_mask, expected.attention_mask)
        assert torch.equal(alone.response_mask, expected.response_mask)


def test_a_batch_is_found_among_a_trainers_other_inputs(batch):
    inputs = {**vars(batch), "anchor_margin": torch.zeros(2), "ids": ["a", "b"]}
    assert PairBatch.of(inputs) == batch


def test_mismatched_gives_every_prompt_the_next_pairs_responses():
    pairs = tiny.random_pairs(4)
    wrong = mismatched(pairs)
    assert [pair.prompt for pair in wrong] == [pair.prompt for pair in pairs]
    assert [pair.chosen for pair in wrong] == [pairs[i].chosen for i in (1, 2, 3, 0)]
    assert [pair.rejected for pair in wrong] == [pairs[i].rejected for i in (1, 2, 3, 0)]


def test_mismatched_uses_every_response_once():
    pairs = tiny.random_pairs(7)
    assert sorted(pair.chosen for pair in mismatched(pairs)) == sorted(pair.chosen for pair in pairs)
