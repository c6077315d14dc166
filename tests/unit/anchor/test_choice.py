"""Which engine `auto` takes, to the byte, and what each one that is asked for is told."""

import pytest
import torch
from torch import nn

from gapo.anchor import AnchorSettings
from gapo.anchor.banked import Bank
from gapo.anchor.engines import ENGINES, Choice, choose_engine
from gapo.anchor.gap import parameters_in_scope
from gapo.errors import InputError
from twin import Twin

PAIRS = 10
OWN = 40_000 * PAIRS  # bytes of the gradients of PAIRS pairs: 10,000 weights in fp32
BESIDE = 4 * 40_000  # the step's gradient, the direction, and two moments of the optimiser


@pytest.fixture
def model():
    """10,000 trained weights, and others that count for nothing."""
    made = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 50, bias=False))
    made[1].requires_grad_(False)
    return made


def chosen(model, free, **told):
    choice = choose_engine(AnchorSettings(**told), model, PAIRS, free=free)
    return choice.name, choice.bank_dtype


@pytest.mark.parametrize(
    ("dtype", "needed", "kept"),
    [("auto", OWN, None), ("fp32", OWN, None), ("bf16", OWN // 2, torch.bfloat16), ("auto", OWN // 2, torch.bfloat16)],
)
def test_a_bank_is_taken_where_it_fills_half_of_what_the_rest_leaves_free(model, dtype, needed, kept):
    enough = 2 * needed + BESIDE
    assert chosen(model, enough, bank_dtype=dtype) == ("bank", kept)
    below = chosen(model, enough - 1, bank_dtype=dtype)
    assert below == (("bank", torch.bfloat16) if dtype == "auto" and needed == OWN else ("two_pass", None))


def test_an_engine_that_is_asked_for_keeps_its_bank_in_bf16_only_where_it_must_or_is_told_to(model):
    enough = 2 * OWN + BESIDE
    for engine in ("bank", "first_order"):
        assert chosen(model, enough, engine=engine) == (engine, None)
        assert chosen(model, enough - 1, engine=engine) == (engine, torch.bfloat16)
        assert chosen(model, enough - 1, engine=engine, bank_dtype="fp32") == (engine, None)
        assert chosen(model, enough, engine=engine, bank_dtype="bf16") == (engine, torch.bfloat16)
    for engine in ("two_pass", "streaming"):  # which have none
        assert chosen(model, 0, engine=engine) == (engine, None)
    assert choose_engine(AnchorSettings(engine="bank"), model, PAIRS).reason == "asked for"


def test_the_widest_type_among_the_weights_is_reckoned_with(model):
    model.append(nn.Linear(1, 1, bias=False).double())
    enough = 2 * 10_001 * 8 * PAIRS + 4 * 10_001 * 8
    assert chosen(model, enough) == ("bank", None)
    assert chosen(model, enough - 1) == ("bank", torch.bfloat16)


def test_the_reason_says_how_much_is_needed_and_how_much_there_is(model):
    told = [str(choose_engine(AnchorSettings(), model, PAIRS, free=free)) for free in (10**9, 700_000, 400_000)]
    assert told == [
        "anchor engine bank: gradients of 10 pairs take 0.4 MB, 1.0 GB are free",
        "anchor engine bank in bf16: gradients of 10 pairs take 0.2 MB in bf16, 0.7 MB are free",
        "anchor engine two_pass: gradients of 10 pairs would take 0.2 MB, 0.4 MB are free",
    ]
    in_fp32 = choose_engine(AnchorSettings(bank_dtype="fp32"), model, PAIRS, free=99_999_999 // 1000)
    assert in_fp32.reason == "gradients of 10 pairs would take 0.4 MB, 0.1 MB are free"
    assert choose_engine(AnchorSettings(), model, PAIRS, free=10**8).reason.endswith("0.1 GB are free")
    assert choose_engine(AnchorSettings(), model, PAIRS, free=10**8 - 1).reason.endswith("100.0 MB are free")


def test_where_the_step_is_no_sum_of_margin_gradients_auto_goes_twice_and_says_why(model):
    plenty = {"free": 10**9}
    elsewhere = choose_engine(AnchorSettings(), model, PAIRS, displaced_step=True, **plenty)
    more = choose_engine(AnchorSettings(), model, PAIRS, bank_fits_loss=False, **plenty)
    both = choose_engine(AnchorSettings(), model, PAIRS, displaced_step=True, bank_fits_loss=False, **plenty)
    assert {(each.name, each.bank_dtype) for each in (elsewhere, more, both)} == {("two_pass", None)}
    assert "SAM" in elsewhere.reason
    assert more.reason == "the loss depends on more than the margin"
    asked = choose_engine(AnchorSettings(engine="two_pass"), model, PAIRS, displaced_step=True, bank_fits_loss=False)
    assert asked.name == "two_pass"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"engine": "bank"}, "bank needs every pair's own gradient"),
        ({"engine": "streaming"}, "streaming needs every pair's own gradient"),
        ({"strategy": "instance"}, "instance moves weights pair by pair"),
        ({"direction": "rank"}, "rank moves each rank's weights its own way"),
    ],
)
def test_shards_refuse_what_they_cannot_do(model, told, says):
    with pytest.raises(InputError, match=says):
        choose_engine(AnchorSettings(**told), model, PAIRS, sharded=True)


@pytest.mark.parametrize("told", [{}, {"engine": "two_pass"}, {"strategy": "random"}])
def test_shards_are_gone_through_twice(model, told):
    choice = choose_engine(AnchorSettings(**told), model, PAIRS, sharded=True)
    assert (choice.name, choice.bank_dtype) == ("two_pass", None)
    assert "FSDP2" in choice.reason


@pytest.mark.parametrize("name", ENGINES)
def test_a_choice_hands_on_what_its_engine_is_told(name):
    ranks, told = Twin(), AnchorSettings(seed=7)

    def precision():
        return torch.autocast("cpu", torch.bfloat16)

    engine = Choice(name, torch.bfloat16, "").engine(told, precision, mixed=True, ranks=ranks)
    assert type(engine) is ENGINES[name]
    assert (engine.settings.engine, engine.settings.seed) == (name, 7)
    assert (engine.precision, engine.ranks, engine.together) == (precision, ranks, ranks)
    assert (engine.forwards.precision, engine.forwards.mixed, engine.forwards.ranks) == (precision, True, ranks)
    assert getattr(engine, "dtype", None) is (torch.bfloat16 if isinstance(engine, Bank) else None)
    assert not Choice(name, None, "").engine(told).forwards.mixed


def test_nothing_to_train_is_nothing_to_move(llama):
    llama.lm_head.requires_grad_(False)
    with pytest.raises(InputError, match="the output layer is not trained"):
        parameters_in_scope(llama, "lm_head")
    assert len(parameters_in_scope(llama)) == len(list(llama.parameters())) - 1
    with pytest.raises(InputError, match=r"matches no trained parameter; names look like 'model\.embed_tokens"):
        parameters_in_scope(llama, "lm_hea")
    llama.requires_grad_(False)
    with pytest.raises(InputError, match="no trainable parameter"):
        parameters_in_scope(llama)
    with pytest.raises(InputError, match="no trainable parameter"):
        choose_engine(AnchorSettings(), llama, PAIRS)
