"""One process alone is every collective's identity."""

import pytest
import torch

from gapo.errors import InputError
from gapo.model.logps import PairLogps
from gapo.model.ranks import ALONE, joined, launched


def test_alone_everything_stays_as_it_is():
    values = torch.randn(5, dtype=torch.float64)
    assert ALONE.sum(values) is values
    assert ALONE.gather(values) is values
    assert ALONE.own(5) == slice(0, 5)
    assert (ALONE.count(5), ALONE.largest(3), ALONE.sum_of(0.25)) == (5, 3, 0.25)
    assert ALONE.mean(values) == pytest.approx(float(values.mean()), rel=1e-12)
    assert ALONE.gather_objects("here") == ["here"]
    assert joined() == ALONE


def test_the_mean_of_nothing_is_no_number():
    assert torch.tensor(ALONE.mean(torch.empty(0))).isnan()


def test_a_refusal_of_the_first_is_a_refusal():
    def refuse():
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        ALONE.first_decides(refuse)


def test_no_pairs_join_with_some():
    some = PairLogps(torch.ones(2), -torch.ones(2), torch.tensor([1, 2]), torch.tensor([3, 4]))
    both = PairLogps.cat([PairLogps.none(), some, PairLogps.none()])
    assert len(both) == 2
    assert torch.equal(both.margin, some.margin)
    assert len(PairLogps.cat([PairLogps.none()])) == 0


def test_a_launcher_says_how_many_there_are(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert launched() == 1
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert launched() == 4
