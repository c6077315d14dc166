"""A signal that asks a run to leave is never lost, whenever it arrives."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

import pytest
from transformers import TrainerControl

from gapo.model.ranks import ALONE
from gapo.training import stopping
from gapo.training.stopping import Stopping


@dataclass
class Asking:
    """Ranks of one process that is asked to leave while it and the others exchange what they heard."""

    hearer: Stopping
    signals: list[int] = field(default_factory=list)

    first = True

    def largest(self, number: int) -> int:
        for heard in self.signals:
            self.hearer._hear(heard, None)
        self.signals.clear()
        return number  # what was said when the exchange began


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_arrives_while_ranks_agree_stops_them_after_the_next_step(monkeypatch, number, capfd):
    hearer = Stopping()
    ranks = Asking(hearer, [number])
    monkeypatch.setattr(stopping, "joined", lambda: ranks)
    hearer.on_train_begin(None, None, TrainerControl())
    control = TrainerControl()
    hearer.on_step_end(None, None, control)
    assert not control.should_save  # the others have not heard of it yet
    hearer.on_step_end(None, None, control)
    assert control.should_save
    assert not control.should_training_stop
    hearer.on_save(None, None, control)
    assert control.should_training_stop
    assert capfd.readouterr().err.count("saving a checkpoint") == 1


def test_what_another_rank_heard_stops_this_one(monkeypatch):
    class Others:
        first = False

        def largest(self, number: int) -> int:
            return max(number, signal.SIGTERM)

    monkeypatch.setattr(stopping, "joined", Others)
    hearer, control = Stopping(), TrainerControl()
    hearer.on_step_end(None, None, control)
    assert (control.should_save, hearer.asked) == (True, signal.SIGTERM)


def test_nobody_asked_nothing_is_saved(monkeypatch):
    monkeypatch.setattr(stopping, "joined", lambda: ALONE)
    hearer, control = Stopping(), TrainerControl()
    hearer.on_step_end(None, None, control)
    hearer.on_save(None, None, control)
    assert (control.should_save, control.should_training_stop) == (False, False)
