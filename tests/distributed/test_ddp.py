"""Two DDP processes take the steps that one takes on the same global batch."""

from __future__ import annotations

import pytest
import torch
from agreement import same
from cases import DDP, PER_RANK, ROWS


@pytest.mark.parametrize("case", DDP)
def test_two_processes_do_what_one_does(case, alone, ddp):
    same(alone[case], ddp[case])


def test_every_pair_of_an_epoch_is_recorded_once(ddp):
    record = ddp["bank"]["pairs"]
    for first in (1, 4, 7):  # three steps are an epoch
        of_epoch = [name for name, step in zip(record["pair_id"], record["step"], strict=True) if 0 <= step - first < 3]
        assert len(of_epoch) == len(set(of_epoch)) == ROWS


def test_a_direction_of_each_rank_is_that_of_its_own_pairs(ddp, alone):
    """At the first step the weights are still equal, so each rank's gaps must be those of a run on its pairs alone."""
    record, shared = ddp["rank_direction"]["pairs"], ddp["two_pass"]["pairs"]
    first = [i for i, step in enumerate(record["step"]) if step == 1]
    assert [record["pair_id"][i] for i in first] == [shared["pair_id"][i] for i in first]
    assert any(abs(record["gap"][i] - shared["gap"][i]) > 1e-6 for i in first)

    import tiny
    from gapo.anchor import AnchorSettings, probe
    from gapo.pairs.collate import collate
    from gapo.pairs.encode import Encoder, encode_pairs
    from gapo.pairs.formats import load_pairs
    from runs_of_tests import text_rows

    encoded, _ = encode_pairs(load_pairs(text_rows(ROWS)), Encoder(tiny.tiny_tokenizer(), 128))
    by_id = {pair.id: pair for pair in encoded}
    for rank in (0, 1):
        own = [i for place, i in enumerate(first) if place // PER_RANK % 2 == rank]
        batch = collate([by_id[record["pair_id"][i]] for i in own], tiny.PAD)
        gaps = probe(tiny.llama(), [batch], AnchorSettings(engine="two_pass")).gap
        assert torch.allclose(gaps, torch.tensor([record["gap"][i] for i in own], dtype=torch.float64), atol=1e-9)
