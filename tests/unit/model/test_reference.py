"""Log-probs of many pairs: order, batches, and a cache that knows what it holds."""

from dataclasses import replace

import pytest
import torch

import tiny
from gapo.model import passes
from gapo.model import reference as reference_module
from gapo.model.policy import pair_logps
from gapo.model.reference import fingerprint, logps_of, reference_logps
from gapo.pairs.collate import collate


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shared", [False, True])
def test_length_sorted_batches_give_the_same_numbers_in_the_same_order(llama, monkeypatch, shared):
    pairs = tiny.random_pairs(9)
    whole = pair_logps(llama, collate(pairs, tiny.PAD))
    for size in (10_000, 60, 1):
        monkeypatch.setitem(passes.BATCH_ENTRIES, "cpu", size)
        found = logps_of(llama, pairs, tiny.PAD, shared=shared)
        assert torch.allclose(found.chosen, whole.chosen, atol=1e-10)
        assert torch.allclose(found.rejected, whole.rejected, atol=1e-10)
        assert torch.equal(found.chosen_tokens, whole.chosen_tokens)
    assert not found.chosen.is_inference()


def test_the_second_time_nothing_is_computed(llama, monkeypatch):
    pairs = tiny.random_pairs(4)
    first = reference_logps(llama, pairs, tiny.PAD)
    monkeypatch.setattr(reference_module, "logps_of", lambda *_: pytest.fail("computed again"))
    again = reference_logps(llama, pairs, tiny.PAD)
    assert torch.equal(first.chosen, again.chosen)


@pytest.mark.parametrize("shared", [False, True])
def test_a_flipped_label_is_no_new_entry_and_changes_no_bit(llama, own_cache, shared):
    pairs = tiny.random_pairs(6)
    flipped = [
        replace(pair, chosen=pair.rejected, rejected=pair.chosen) if k % 2 else pair for k, pair in enumerate(pairs)
    ]
    first = reference_logps(llama, pairs, tiny.PAD, shared=shared)
    turned = reference_logps(llama, flipped, tiny.PAD, shared=shared)
    assert len(list((own_cache / "reference").iterdir())) == 1
    for k in range(len(pairs)):
        ours, theirs = (turned[k : k + 1], first[k : k + 1])
        theirs = theirs.swapped() if k % 2 else theirs
        assert torch.equal(ours.chosen, theirs.chosen)
        assert torch.equal(ours.rejected, theirs.rejected)
        assert torch.equal(ours.chosen_tokens, theirs.chosen_tokens)
        assert torch.equal(ours.rejected_tokens, theirs.rejected_tokens)
    for entry in (own_cache / "reference").iterdir():
        entry.unlink()
    cold = reference_logps(llama, flipped, tiny.PAD, shared=shared)  # whoever came first
    assert torch.equal(cold.chosen, turned.chosen)
    assert torch.allclose(cold.rejected, logps_of(llama, flipped, tiny.PAD).rejected, atol=1e-10)


def test_the_layout_is_no_part_of_the_key(llama, own_cache):
    pairs = tiny.random_pairs(4)
    first = reference_logps(llama, pairs, tiny.PAD)
    assert torch.equal(reference_logps(llama, pairs, tiny.PAD, shared=True).chosen, first.chosen)
    assert len(list((own_cache / "reference").iterdir())) == 1


def test_other_weights_or_other_pairs_are_other_entries(llama, own_cache):
    reference_logps(llama, tiny.random_pairs(4), tiny.PAD)
    reference_logps(llama, tiny.random_pairs(4, seed=1), tiny.PAD)
    with torch.no_grad():
        llama.model.layers[0].mlp.up_proj.weight[3, 5] += 1e-3
    reference_logps(llama, tiny.random_pairs(4), tiny.PAD)
    assert len(list((own_cache / "reference").iterdir())) == 3


def test_a_damaged_entry_is_computed_again(llama, own_cache):
    pairs = tiny.random_pairs(4)
    first = reference_logps(llama, pairs, tiny.PAD)
    (entry,) = (own_cache / "reference").iterdir()
    entry.write_bytes(entry.read_bytes()[:-7])
    assert torch.equal(reference_logps(llama, pairs, tiny.PAD).chosen, first.chosen)


@pytest.mark.parametrize("swap", ["rows", "columns"])
def test_the_fingerprint_sees_what_sums_do_not(swap):
    model = tiny.llama()
    before = fingerprint(model)
    with torch.no_grad():
        weight = model.model.embed_tokens.weight
        if swap == "rows":
            weight[[5, 6]] = weight[[6, 5]]
        else:
            weight[:, [0, 1]] = weight[:, [1, 0]]
    assert fingerprint(model) != before
    assert fingerprint(tiny.llama()) == before


def test_another_precision_is_another_entry(llama, own_cache):
    pairs = tiny.random_pairs(3)
    reference_logps(llama, pairs, tiny.PAD)
    reference_logps(llama, pairs, tiny.PAD, precision_name="bf16")
    assert len(list((own_cache / "reference").iterdir())) == 2
