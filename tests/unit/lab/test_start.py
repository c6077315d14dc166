"""The start model and its tokenizer, as shipped."""

import json

import pytest

from gapo.lab.load import START_FOLDER
from gapo.lab.measures import held_out_prompts, qualities, skill_kept
from gapo.lab.sampling import sample_replies
from gapo.lab.tokenizer import build_tokenizer, vocabulary


def test_the_start_model_is_small(started):
    model, _ = started
    assert sum(p.numel() for p in model.parameters()) <= 1_000_000
    assert sum(file.stat().st_size for file in START_FOLDER.iterdir()) <= 4_000_000


def test_the_record_says_how_it_was_made(started):
    model, _ = started
    record = json.loads((START_FOLDER / "make.json").read_text())
    assert record["seed"] == 0
    assert record["parameters"] == sum(p.numel() for p in model.parameters())


def test_the_shipped_tokenizer_is_the_one_the_world_asks_for(started):
    _, tokenizer = started
    built = build_tokenizer()
    assert tokenizer.get_vocab() == built.get_vocab() == {word: i for i, word in enumerate(vocabulary())}
    assert len(tokenizer) <= 300
    assert tokenizer.chat_template is None


def test_text_survives_the_tokenizer(started, shipped):
    _, tokenizer = started
    for pair in shipped["test"][:100]:
        for text in (pair.prompt_text, pair.chosen, pair.rejected):
            tokens = tokenizer(text)["input_ids"]
            assert tokens[0] == tokenizer.bos_token_id
            assert tokenizer.unk_token_id not in tokens
            assert tokenizer.decode(tokens, skip_special_tokens=True) == text


@pytest.mark.parametrize("between", ["", " "])
def test_prompt_and_response_apart_are_prompt_and_response_joined(started, shipped, between):
    _, tokenizer = started
    for pair in shipped["test"][:100]:
        apart = tokenizer(pair.prompt_text)["input_ids"]
        apart += tokenizer(pair.chosen + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
        joined = tokenizer(pair.prompt_text + between + pair.chosen + tokenizer.eos_token)["input_ids"]
        assert apart == joined
        assert joined[-1] == tokenizer.eos_token_id


def test_the_start_model_can_add_and_has_room_to_improve(started):
    model, tokenizer = started
    prompts = held_out_prompts(400)
    replies = sample_replies(model, tokenizer, prompts, seed=5)
    assert 0.4 < qualities(prompts, replies).mean() < 0.6
    assert skill_kept(model, tokenizer) >= 0.9


def test_the_same_seed_gives_the_same_replies_in_any_company(started):
    model, tokenizer = started
    prompts = [*held_out_prompts(6), "add 3 and 4 :"]  # of two lengths, so some rows are padded
    replies = sample_replies(model, tokenizer, prompts, seed=3)
    assert replies == sample_replies(model, tokenizer, prompts, seed=3)
    assert replies != sample_replies(model, tokenizer, prompts, seed=4)
    assert replies[:6] == sample_replies(model, tokenizer, prompts[:6], seed=3)
