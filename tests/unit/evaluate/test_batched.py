"""An answer is the model's own, whatever is answered beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

import tiny
from gapo.errors import InputError
from gapo.evaluate.batched import BatchedAnswerer, OwnDraws, in_nucleus, weights_digest
from gapo.evaluate.generation import Decoding
from gapo.evaluate.partial import Made
from gapo.evaluate.questions import Question
from gapo.pairs.encode import Encoder

PROMPTS = [
    "hello",
    "what is the time",
    "tell me about a cat that sings",
    "how are you today I am fine",
    "red blue",
    "yes",
]
QUESTIONS = [Question(str(i), prompt) for i, prompt in enumerate(PROMPTS)]
GREEDY = Decoding(12)
DRAWN = Decoding(12, temperature=1.3, top_p=0.9, seed=4)


def answers(model, decoding: Decoding, questions: Sequence[Question] = QUESTIONS, **options) -> dict[str, Made]:
    found: dict[str, Made] = {}
    tokenizer = options.pop("tokenizer", None) or tiny.tiny_tokenizer()
    answerer = BatchedAnswerer(model, tokenizer, "tiny", decoding, **options)
    answerer.answer(questions, lambda made: found.update({each.id: each for each in made}))
    return found


def by_hand(model, ids: list[int], length: int, ends: set[int]) -> list[int]:
    """Greedy without cache, padding, batch or transformers' generate."""
    made: list[int] = []
    while len(made) < length:
        with torch.no_grad():
            made.append(int(model(torch.tensor([ids + made])).logits[0, -1].argmax()))
        if made[-1] in ends:
            return made[:-1]
    return made


@pytest.mark.parametrize("kind", tiny.MODELS)
def test_batched_greedy_is_greedy_by_hand(kind: str) -> None:
    model, tokenizer = tiny.MODELS[kind](), tiny.tiny_tokenizer()
    encoder = Encoder(tokenizer)
    expected = {
        each.id: tokenizer.decode(by_hand(model, encoder.prompt_ids(each.prompt), 12, {2}), skip_special_tokens=True)
        for each in QUESTIONS
    }
    assert {name: made.text for name, made in answers(model, GREEDY).items()} == {
        name: text.strip() for name, text in expected.items()
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("decoding", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("kind", ["llama", "gpt_neox", "mistral"])
def test_batches_change_no_answer(kind: str, decoding: Decoding, dtype: torch.dtype) -> None:
    model = tiny.MODELS[kind](dtype=dtype)
    alone = answers(model, decoding, batch_tokens=1)
    assert alone == answers(model, decoding)
    assert alone == answers(model, decoding, QUESTIONS[::-1], batch_tokens=70)
    some = answers(model, decoding, QUESTIONS[2:4])
    assert some == {name: alone[name] for name in some}


def test_each_question_and_each_seed_draws_anew() -> None:
    model = tiny.llama()
    twice = [Question("a", "hello"), Question("b", "hello")]
    first = answers(model, DRAWN, twice)
    assert first["a"].text != first["b"].text
    assert answers(model, Decoding(12, temperature=1.3, top_p=0.9, seed=5), twice)["a"].text != first["a"].text


def test_draws_follow_the_probabilities() -> None:
    logits = torch.tensor([2.0, 1.0, 0.5, -1.0, -3.0], dtype=torch.float64)
    n = 6000
    drawn = OwnDraws(range(n), 0.8, 0.93, torch.device("cpu"))(torch.zeros(n, 1), logits.expand(n, 5)).argmax(-1)
    chances = (logits / 0.8).softmax(-1)
    assert chances[:2].sum() < 0.93 < chances[:3].sum()
    chances = torch.where(torch.arange(5) < 3, chances, 0) / chances[:3].sum()
    counts = torch.bincount(drawn, minlength=5)
    for chance, count in zip(chances.tolist(), counts.tolist(), strict=True):
        assert abs(count - n * chance) <= 4 * math.sqrt(n * chance * (1 - chance))


def test_the_nucleus_is_the_fewest_tokens_that_reach_the_share() -> None:
    logits = torch.randn(20, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for row, kept in zip(logits, in_nucleus(logits, 0.7), strict=True):
        chances = row.softmax(-1)
        order = sorted(range(9), key=lambda i: -chances[i])
        fewest = next(k for k in range(1, 10) if chances[order[:k]].sum() >= 0.7)
        assert set(order[:fewest]) == {i for i in range(9) if kept[i]}


def test_every_end_token_ends_an_answer() -> None:
    model, tokenizer = tiny.llama(), tiny.tiny_tokenizer()
    free = {each.id: by_hand(model, Encoder(tokenizer).prompt_ids(each.prompt), 12, {2}) for each in QUESTIONS}
    name, ids = max(free.items(), key=lambda item: len(item[1]))
    place = next(i for i in range(2, len(ids)) if ids[i] not in ids[:i])
    model.generation_config.eos_token_id = [2, ids[place]]
    made = answers(model, GREEDY)[name]
    assert (made.finish, made.tokens) == ("end", place)
    assert made.text == tokenizer.decode(ids[:place], skip_special_tokens=True).strip()


def test_the_end_of_turn_of_the_template_ends_an_answer() -> None:
    tokenizer = tiny.tiny_tokenizer(tiny.CHAT)
    answerer = BatchedAnswerer(tiny.llama(), tokenizer, "tiny", GREEDY)
    assert (answerer.template, answerer._ends()) == ("chat", {2, tokenizer.convert_tokens_to_ids("<|end|>")})


def test_settings_of_the_checkpoint_do_not_work_unseen() -> None:
    plain = answers(tiny.llama(), GREEDY)
    model = tiny.llama()
    model.generation_config.repetition_penalty = 9.0
    model.generation_config.do_sample = True
    own = model.generation_config
    assert answers(model, GREEDY) == plain
    assert model.generation_config is own


def test_a_prompt_near_the_last_position_is_answered_as_far_as_there_is_room() -> None:
    model = tiny.llama()  # 128 positions; the tokenizer adds one start token
    questions = [
        *QUESTIONS,
        Question("near", "cat " * 122),
        Question("full", "dog " * 127),
        Question("over", "cat " * 200),
    ]
    found = answers(model, GREEDY, questions)
    free = by_hand(model, Encoder(tiny.tiny_tokenizer()).prompt_ids("cat " * 122), 5, {2})
    assert (found["near"].tokens, found["near"].finish) == (len(free), "length" if len(free) == 5 else "end")
    assert found["full"] == Made("full", "", 0, "no room")
    assert found["over"] == Made("over", "", 0, "no room")
    assert {name: found[name] for name in map(str, range(6))} == answers(model, GREEDY)


def test_too_much_at_once_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.llama()
    expected = answers(model, GREEDY)
    generate = model.generate

    def scarce(*, input_ids: torch.Tensor, **options):
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError
        return generate(input_ids=input_ids, **options)

    monkeypatch.setattr(model, "generate", scarce)
    assert answers(model, GREEDY) == expected


def test_any_weight_shows_in_the_digest() -> None:
    model = tiny.llama()
    before = weights_digest(model)
    assert before == weights_digest(tiny.llama())
    with torch.no_grad():
        next(model.parameters())[5, 3] += 1e-9
    assert weights_digest(model) != before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"template": "chatt"}, "--template must be one of"),
        ({"template": "chat"}, "the tokenizer has no chat template"),
        ({"batch_tokens": 0}, "--batch-tokens must be 1 or more"),
    ],
)
def test_options_that_cannot_be_are_one_sentence(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        BatchedAnswerer(tiny.llama(), tiny.tiny_tokenizer(), "tiny", GREEDY, **options)


def test_a_system_message_needs_a_template() -> None:
    with pytest.raises(InputError, match="--system needs a chat template"):
        BatchedAnswerer(tiny.llama(), tiny.tiny_tokenizer(), "tiny", Decoding(4, system="be good"))
    tokenizer = tiny.tiny_tokenizer(tiny.CHAT)
    with_system = BatchedAnswerer(tiny.llama(), tokenizer, "tiny", Decoding(4, system="be good"))
    assert tokenizer.decode(with_system._asked(QUESTIONS[0]).ids).startswith("<bos> <|system|>")
