"""Two processes that share the weights out take the steps that one takes, and do not see weights of before a move."""

from __future__ import annotations

import pytest
import torch
from agreement import same
from cases import FSDP2, ROWS


@pytest.mark.parametrize("case", FSDP2)
def test_two_processes_do_what_one_does(case, alone, fsdp2):
    same(alone[case], fsdp2[case])


def test_full_fine_tuning_takes_two_passes(fsdp2):
    assert fsdp2["two_pass"]["engine"] == "two_pass"


def test_every_pair_of_an_epoch_is_recorded_once(fsdp2):
    record = fsdp2["two_pass"]["pairs"]
    of_epoch = [name for name, step in zip(record["pair_id"], record["step"], strict=True) if step <= 3]
    assert len(of_epoch) == len(set(of_epoch)) == ROWS


def test_the_model_is_written_whole(fsdp2):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(fsdp2.folder / "two_pass" / "model", dtype=torch.float64)
    found = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(found, fsdp2["two_pass"]["weights"])


def test_gathered_weights_do_not_hide_a_move(tmp_path):
    """The gap, and the margins back home; both go wrong where a pass leaves its gathered weights behind."""
    from pathlib import Path

    import launches

    launches.together([str(Path(__file__).with_name("stale.py")), str(tmp_path / "found.pt")])
    found = torch.load(tmp_path / "found.pt")
    for right, fresh, stale in zip(found["whole"], found["fresh"], found["stale"], strict=True):
        assert torch.allclose(fresh, right, rtol=0, atol=1e-9)
        assert (stale - right).abs().max() > 1e-5
