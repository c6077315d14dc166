"""Two rows a pair, all chosen rows first, or one row with both responses; padded on the right."""

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


def test_segments_say_what_each_token_is(batch):
    assert batch.segments.tolist() == [[0, 0, 0, 1, 1], [0, 1, -1, -1, -1], [0, 0, 0, 2, -1], [0, 2, 2, 2, 2]]
    assert not batch.shared


def test_a_shared_row_is_prompt_chosen_rejected_and_its_positions_restart_after_the_prompt():
    batch = collate(PAIRS, pad_id=0, shared=True)
    assert batch.input_ids.tolist() == [[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]]
    assert batch.segments.tolist() == [[0, 0, 0, 1, 1, 2], [0, 1, 2, 2, 2, 2]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 4, 3], [0, 1, 1, 2, 3, 4]]
    assert len(batch) == 2
    assert batch.tokens == 12


def test_padding_of_a_shared_row_stands_at_position_zero():
    batch = collate([PAIRS[0], EncodedPair("c", [5], [6], [7])], pad_id=0, shared=True)
    assert batch.position_ids[1].tolist() == [0, 1, 1, 0, 0, 0]


def test_the_first_rejected_token_is_predicted_from_the_last_of_the_prompt():
    rows, positions, ids, owners = collate(PAIRS, pad_id=0, shared=True).response_tokens()
    assert rows.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert positions.tolist() == [2, 3, 2, 0, 0, 2, 3, 4]
    assert ids.tolist() == [8, 9, 10, 12, 13, 14, 15, 16]
    assert owners.tolist() == [0, 0, 2, 1, 3, 3, 3, 3]


def test_length_is_in_pairs_and_tokens_leave_out_padding(batch):
    assert len(batch) == 2
    assert batch.tokens == 5 + 2 + 4 + 5


@pytest.mark.parametrize("shared", [False, True])
def test_one_pair_is_taken_without_the_padding_it_does_not_need(shared):
    pairs = tiny.random_pairs(6, seed=3)
    batch = collate(pairs, tiny.PAD, shared)
    for i, pair in enumerate(pairs):
        alone, expected = batch.take(i), collate([pair], tiny.PAD, shared)
        assert torch.equal(alone.input_ids, expected.input_ids)
        assert torch.equal(alone.segments, expected.segments)
        assert alone.shared is shared


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
