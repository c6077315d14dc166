"""The count of useful arithmetic against a calculation by hand and against torch's own counter."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import tiny
from gapo.bench.work import Shape, forward_flops, useful_flops
from gapo.runs.lengths import Lengths, lengths_of
from gapo.runs.machines import matmul_peak

TOKENS = 11


class Called(TorchDispatchMode):
    """Which operators were called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(str(function))
        return function(*args, **(kwargs or {}))


def counted(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.fixture
def model():
    return tiny.llama(dtype=torch.float32, attention="eager").train()


def test_by_hand():
    """One layer, 10 linear weights, head of 6, attention width 4; prompt 3, responses 2 and 1."""
    pair = Lengths(3, 2, 1)
    assert (pair.tokens, pair.responses) == (6, 3)
    assert pair.seen == (1 + 2 + 3) + (4 + 5) + 4  # each query sees the prompt and its own response up to itself
    flops = 2 * 10 * 6 + 2 * 6 * 3 + 4 * 4 * 19
    assert forward_flops(Shape(10, 6, 1, 4), pair) == flops
    assert useful_flops(Shape(10, 6, 1, 4), [pair, pair]) == 2 * 3 * flops


def test_the_shape_of_a_llama_is_that_of_its_config(model):
    """32 hidden, 4 heads of 8, 2 of them for keys, 48 inside, 61 words, 2 layers."""
    layer = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 48
    assert Shape.of(model) == Shape(2 * layer, 61 * 32, 2, 32)
    assert Shape.of(tiny.llama_tied(dtype=torch.float32)) == Shape.of(model)


def whole_square(shape, tokens):
    """What eager attention does beyond the causal half."""
    return 4 * shape.attention_width * shape.layers * (tokens**2 - tokens * (tokens + 1) // 2)


def test_torch_counts_the_same_forward(model):
    ids = torch.randint(3, 61, (1, TOKENS))
    shape = Shape.of(model)
    extra = whole_square(shape, TOKENS)
    assert counted(lambda: model.model(ids)) == forward_flops(shape, Lengths(TOKENS, 0, 0)) + extra
    head = 2 * shape.head_weights * TOKENS
    assert counted(lambda: model(ids)) == forward_flops(shape, Lengths(TOKENS, 0, 0)) + extra + head


def test_torch_counts_twice_as_much_backward(model):
    ids = torch.randint(3, 61, (1, TOKENS))
    shape = Shape.of(model)
    square = forward_flops(shape, Lengths(0, TOKENS, 0)) + whole_square(shape, TOKENS)
    assert counted(lambda: model(ids).logits.sum().backward()) == 3 * square


def test_a_prompt_counts_once_but_is_seen_by_both_responses():
    shared, apart = Lengths(7, 2, 3), [Lengths(7, 2, 0), Lengths(7, 3, 0)]
    shape = Shape(10, 6, 1, 4)
    again = forward_flops(shape, Lengths(7, 0, 0))
    assert forward_flops(shape, shared) == sum(forward_flops(shape, row) for row in apart) - again


def test_lengths_are_those_of_the_pairs():
    pairs = tiny.random_pairs(3)
    assert [pair.tokens for pair in lengths_of(pairs)] == [
        len(pair.prompt) + len(pair.chosen) + len(pair.rejected) for pair in pairs
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_peak_is_a_rate(dtype, monkeypatch):
    monkeypatch.setattr("gapo.runs.machines.PEAK_SHAPE", (32, 16, 16))
    with Called() as seen:
        assert matmul_peak(dtype, seconds=0.001) > 0
    assert "aten.mm.default" in seen.names  # what a model's layers call; mm.out is another kernel
    assert "aten.mm.out" not in seen.names
