"""What an anchor may be told."""

from dataclasses import FrozenInstanceError

import pytest

from gapo.anchor import AnchorSettings
from gapo.errors import InputError


def test_untold_it_is_the_papers_anchor():
    """rho 0.05, one anchor for the 8 micro-batches of a step, every parameter, the direction of the mean margin."""
    told = AnchorSettings()
    assert (told.radius, told.batches, told.scope, told.strategy) == (0.05, 8, "full", "batch")
    assert (told.engine, told.bank_dtype, told.seed, told.direction) == ("auto", "auto", 0, "global")
    with pytest.raises(FrozenInstanceError):
        told.radius = 1.0


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"radius": 0.0}, "a number greater than 0, not 0.0"),
        ({"radius": -0.1}, "greater than 0"),
        ({"radius": float("inf")}, "greater than 0, not inf"),
        ({"radius": float("nan")}, "greater than 0, not nan"),
        ({"batches": 0}, "batches must be at least 1, not 0"),
        ({"strategy": "bach"}, "anchor.strategy 'bach'; did you mean 'batch'"),
        ({"engine": "banc"}, "anchor.engine 'banc'; did you mean 'bank'"),
        ({"bank_dtype": "fp16"}, "unknown anchor.bank_dtype 'fp16'"),
        ({"direction": "globe"}, "anchor.direction 'globe'; did you mean 'global'"),
        ({"engine": "streaming", "strategy": "instance"}, "streaming knows only anchor.strategy batch"),
        ({"engine": "streaming", "strategy": "random"}, "streaming knows only anchor.strategy batch"),
    ],
)
def test_what_makes_no_anchor_is_refused(told, says):
    with pytest.raises(InputError, match=says):
        AnchorSettings(**told)


def test_the_smallest_and_the_oddest_that_do_are_not():
    AnchorSettings(radius=1e-12, batches=1)
    AnchorSettings(radius=7.0, engine="streaming", strategy="batch")
    AnchorSettings(engine="bank", strategy="random")
