"""Response tokens are the reply text and its end-of-turn token; everything before them is prompt."""

import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

import tiny
from gapo.errors import InputError
from gapo.pairs.encode import TOO_LONG, EncodedPair, Encoder, encode_pairs, transcript
from gapo.pairs.pair import BadRow, Message, PairSet, PreferencePair

CONVERSATION = (Message("user", "hello there"),)
MULTI_TURN = (
    Message("system", "tell me about a cat"),
    Message("user", "hello"),
    Message("assistant", "hello there"),
    Message("user", "how are you"),
)

# --- helpers ------------------------------------------------------------------------------------------------------


def words(tokenizer, ids):
    return tokenizer.convert_ids_to_tokens(ids)


def prompt_words(encoder, prompt):
    return words(encoder.tokenizer, encoder.prompt_ids(prompt))


def reply_words(encoder, prompt, reply):
    return words(encoder.tokenizer, encoder.response_ids(prompt, reply))


def pair(prompt="hello there", chosen="I am fine", rejected="not well", **options):
    return PreferencePair(prompt, chosen, rejected, **options)


def letters_tokenizer():
    """One character, one token, so that spaces show."""
    alphabet = ["<bos>", "<eos>", "<unk>", *map(chr, range(32, 127)), "\n"]
    tokenizer = Tokenizer(WordLevel({letter: i for i, letter in enumerate(alphabet)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>")


def spelled(encoder, ids):
    return "".join(words(encoder.tokenizer, ids))


# --- plain text ---------------------------------------------------------------------------------------------------


def test_plain_text_is_taken_as_it_is_and_the_reply_ends_with_eos(tokenizer):
    encoder = Encoder(tokenizer)
    assert prompt_words(encoder, "hello there") == ["<bos>", "hello", "there"]
    assert reply_words(encoder, "hello there", "I am fine") == ["I", "am", "fine", "<eos>"]


def test_plain_text_stays_plain_under_auto_even_with_a_chat_template(chat_tokenizer):
    assert prompt_words(Encoder(chat_tokenizer), "hello there") == ["<bos>", "hello", "there"]


def test_plain_text_brings_its_own_space_or_none():
    encoder = Encoder(letters_tokenizer())
    assert spelled(encoder, encoder.prompt_ids("2+2=")) == "<bos>2+2="
    assert spelled(encoder, encoder.response_ids("2+2=", "4")) == "4<eos>"
    assert spelled(encoder, encoder.response_ids("2+2=", " 4")) == " 4<eos>"


def test_a_tokenizer_that_adds_no_bos_gets_none():
    encoder = Encoder(tiny.tiny_tokenizer(adds_bos=False))
    assert prompt_words(encoder, "hello there") == ["hello", "there"]


def test_a_tokenizer_that_closes_every_text_does_not_close_the_prompt(tokenizer):
    closing = TemplateProcessing(single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)])
    tokenizer.backend_tokenizer.post_processor = closing
    encoder = Encoder(tokenizer)
    assert prompt_words(encoder, "hello there") == ["<bos>", "hello", "there"]
    assert prompt_words(encoder, "") == ["<bos>"]
    assert reply_words(encoder, "hello there", "fine") == ["fine", "<eos>"]


# --- chat templates -----------------------------------------------------------------------------------------------


def test_the_header_belongs_to_the_prompt_and_the_end_of_turn_to_the_reply(chat_tokenizer):
    encoder = Encoder(chat_tokenizer)
    header = ["<|assistant|>", "\n"]
    assert prompt_words(encoder, CONVERSATION) == [
        *["<bos>", "<|user|>", "\n", "hello", "there", "<|end|>", "\n"],
        *header,
    ]
    assert reply_words(encoder, CONVERSATION, "I am fine") == ["I", "am", "fine", "<|end|>"]


@pytest.mark.parametrize("adds_bos", [True, False])
def test_there_is_one_bos_when_the_template_writes_it_whatever_the_tokenizer_adds(adds_bos):
    encoder = Encoder(tiny.tiny_tokenizer(tiny.CHAT, adds_bos=adds_bos))
    encoded = encoder.encode(pair(CONVERSATION))
    assert [*encoded.prompt, *encoded.chosen].count(encoder.tokenizer.bos_token_id) == 1
    assert encoded.prompt[0] == encoder.tokenizer.bos_token_id


def test_there_is_one_bos_when_the_text_writes_it_and_the_tokenizer_adds_it(tokenizer):
    assert prompt_words(Encoder(tokenizer), "<bos>hello there") == ["<bos>", "hello", "there"]


def test_a_template_that_writes_bos_twice_is_cut_to_one():
    encoder = Encoder(tiny.tiny_tokenizer("{{ bos_token }}" + tiny.CHAT))
    assert prompt_words(encoder, CONVERSATION)[:2] == ["<bos>", "<|user|>"]


def test_what_the_template_writes_after_the_end_of_the_turn_is_dropped(chat_tokenizer):
    rendered = chat_tokenizer.apply_chat_template([{"role": "assistant", "content": "fine"}], tokenize=False)
    assert rendered.endswith("<|end|>\n")
    assert reply_words(Encoder(chat_tokenizer), CONVERSATION, "fine")[-1] == "<|end|>"


def test_a_newline_inside_the_reply_is_kept(chat_tokenizer):
    assert reply_words(Encoder(chat_tokenizer), CONVERSATION, "fine\nthanks") == ["fine", "\n", "thanks", "<|end|>"]


def test_an_end_of_turn_that_is_the_eos_token_is_found_too():
    encoder = Encoder(tiny.tiny_tokenizer(tiny.CHAT.replace("<|end|>", "{{ eos_token }}")))
    assert reply_words(encoder, CONVERSATION, "I am fine") == ["I", "am", "fine", "<eos>"]


def test_a_template_without_an_end_of_turn_gets_eos():
    encoder = Encoder(tiny.tiny_tokenizer(tiny.CHAT.replace("<|end|>{{ '\n' }}", "")))
    assert reply_words(encoder, CONVERSATION, "I am fine") == ["I", "am", "fine", "<eos>"]


def test_an_unknown_word_is_no_end_of_turn():
    encoder = Encoder(tiny.tiny_tokenizer(tiny.CHAT.replace("<|end|>{{ '\n' }}", "")))
    assert reply_words(encoder, CONVERSATION, "I zzz fine") == ["I", "<unk>", "fine", "<eos>"]


def test_chat_makes_plain_text_one_user_turn(chat_tokenizer):
    chat, auto = Encoder(chat_tokenizer, template="chat"), Encoder(chat_tokenizer)
    assert chat.prompt_ids("hello there") == auto.prompt_ids(CONVERSATION)
    assert chat.response_ids("hello there", "fine") == auto.response_ids(CONVERSATION, "fine")


def test_several_turns_keep_their_order_and_their_ends(chat_tokenizer):
    encoder = Encoder(chat_tokenizer)
    text = " ".join(prompt_words(encoder, MULTI_TURN)).replace(" \n", "")
    assert text == (
        "<bos> <|system|> tell me about a cat <|end|> <|user|> hello <|end|> "
        "<|assistant|> hello there <|end|> <|user|> how are you <|end|> <|assistant|>"
    )
    assert reply_words(encoder, MULTI_TURN, "fine thanks") == ["fine", "thanks", "<|end|>"]


def test_prompt_and_reply_side_by_side_are_the_rendered_conversation(chat_tokenizer):
    encoder = Encoder(chat_tokenizer)
    rows = [turn._asdict() for turn in (*MULTI_TURN, Message("assistant", "fine thanks"))]
    whole = chat_tokenizer.apply_chat_template(rows, tokenize=True, return_dict=False)
    assert [*encoder.prompt_ids(MULTI_TURN), *encoder.response_ids(MULTI_TURN, "fine thanks")] == whole[:-1]


def test_a_template_that_rewrites_earlier_turns_falls_back_to_the_reply_and_eos():
    thinking = tiny.CHAT.replace("<|assistant|>{{ '\n' }}{% endif %}", "<|assistant|>{{ '\n' }}<|system|>{% endif %}")
    encoder = Encoder(tiny.tiny_tokenizer(thinking))
    assert prompt_words(encoder, CONVERSATION)[-1] == "<|system|>"
    assert reply_words(encoder, CONVERSATION, "I am fine") == ["I", "am", "fine", "<eos>"]


def test_a_template_that_refuses_says_so_in_one_sentence():
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turn') }}{% endif %}" + tiny.CHAT
    encoder = Encoder(tiny.tiny_tokenizer(refusing))
    assert encoder.prompt_ids(CONVERSATION)
    with pytest.raises(InputError, match=r"chat template refuses a conversation \(no system turn\)"):
        encoder.prompt_ids(MULTI_TURN)


# --- transcripts --------------------------------------------------------------------------------------------------


def test_a_conversation_without_a_template_reads_as_a_transcript():
    assert transcript(MULTI_TURN) == (
        "\n\nSystem: tell me about a cat\n\nHuman: hello\n\nAssistant: hello there\n\nHuman: how are you\n\nAssistant:"
    )
    encoder = Encoder(letters_tokenizer())
    assert spelled(encoder, encoder.prompt_ids(CONVERSATION)) == "<bos>\n\nHuman: hello there\n\nAssistant:"


def test_a_reply_to_a_transcript_gets_the_space_that_follows_assistant():
    encoder = Encoder(letters_tokenizer())
    assert spelled(encoder, encoder.response_ids(CONVERSATION, "fine")) == " fine<eos>"
    assert spelled(encoder, encoder.response_ids(CONVERSATION, " fine")) == " fine<eos>"
    assert spelled(encoder, encoder.response_ids(CONVERSATION, "\nfine")) == "\nfine<eos>"


def test_none_never_uses_the_template(chat_tokenizer, tokenizer):
    with_template, without = Encoder(chat_tokenizer, template="none"), Encoder(tokenizer)
    assert with_template.prompt_ids(CONVERSATION) == without.prompt_ids(CONVERSATION)
    assert reply_words(with_template, CONVERSATION, "fine") == ["fine", "<eos>"]


# --- limits -------------------------------------------------------------------------------------------------------


def test_an_empty_prompt_still_has_a_token_to_predict_from():
    with_bos, without_bos = tiny.tiny_tokenizer(adds_bos=False), tiny.tiny_tokenizer(adds_bos=False)
    without_bos.bos_token = None
    assert prompt_words(Encoder(with_bos), "") == ["<bos>"]
    assert prompt_words(Encoder(without_bos), "") == ["<eos>"]
    assert prompt_words(Encoder(tiny.tiny_tokenizer()), "") == ["<bos>"]


def test_an_empty_reply_is_its_end_of_turn(tokenizer, chat_tokenizer):
    assert reply_words(Encoder(tokenizer), "hello", "") == ["<eos>"]
    assert reply_words(Encoder(chat_tokenizer), CONVERSATION, "") == ["<|end|>"]


def test_an_encoded_pair_carries_its_id_its_label_and_a_shared_prompt(tokenizer):
    original = pair(flipped=True)
    encoded = Encoder(tokenizer).encode(original)
    assert isinstance(encoded, EncodedPair)
    assert (encoded.id, encoded.flipped) == (original.id, True)
    assert words(tokenizer, encoded.prompt) == ["<bos>", "hello", "there"]
    assert words(tokenizer, encoded.chosen) == ["I", "am", "fine", "<eos>"]
    assert words(tokenizer, encoded.rejected) == ["not", "well", "<eos>"]


def test_swapping_the_responses_swaps_their_ids(tokenizer):
    encoder = Encoder(tokenizer)
    one, other = encoder.encode(pair()), encoder.encode(pair().swapped())
    assert (one.prompt, one.chosen, one.rejected) == (other.prompt, other.rejected, other.chosen)


def test_a_response_is_cut_to_the_room_the_prompt_leaves(tokenizer):
    encoded = Encoder(tokenizer, max_length=5).encode(pair())
    assert words(tokenizer, encoded.chosen) == ["I", "am"]
    assert words(tokenizer, encoded.rejected) == ["not", "well"]


def test_a_response_that_just_fits_keeps_its_end_of_turn(tokenizer):
    encoded = Encoder(tokenizer, max_length=7).encode(pair())
    assert words(tokenizer, encoded.chosen)[-1] == "<eos>"


def test_responses_that_are_the_same_after_the_cut_are_a_bad_row(tokenizer):
    alike = pair(chosen="I am fine", rejected="I am bad", source="rows.jsonl:3")
    assert isinstance(Encoder(tokenizer, max_length=6).encode(alike), EncodedPair)
    row = Encoder(tokenizer, max_length=5).encode(alike)
    assert row == BadRow("rows.jsonl:3", "chosen equals rejected", "after tokenization and truncation")


def test_a_prompt_over_the_limit_is_a_bad_row_that_says_by_how_much(tokenizer):
    encoder = Encoder(tokenizer, max_length=20, max_prompt_length=3)
    assert isinstance(encoder.encode(pair("hello there")), EncodedPair)
    row = encoder.encode(pair("hello there you", source="rows.jsonl:7"))
    assert row == BadRow("rows.jsonl:7", TOO_LONG, "4 tokens, limit 3")


def test_without_a_limit_of_its_own_a_prompt_leaves_room_for_one_token(tokenizer):
    encoder = Encoder(tokenizer, max_length=4)
    assert words(tokenizer, encoder.encode(pair("hello there")).chosen) == ["I"]
    row = encoder.encode(pair("hello there you"))
    assert (row.source, row.reason) == (pair("hello there you").id, TOO_LONG)


def test_a_set_is_encoded_in_order_and_what_cannot_be_used_is_reported(tokenizer):
    pairs = PairSet((pair("hello"), pair("hello there you"), pair("there")))
    encoded, bad = encode_pairs(pairs, Encoder(tokenizer, max_prompt_length=3))
    assert [each.id for each in encoded] == [pairs[0].id, pairs[2].id]
    assert [(row.source, row.reason) for row in bad] == [(pairs[1].id, TOO_LONG)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"template": "chatml"}, "data.template must be one of auto, chat, none, not 'chatml'"),
        ({"template": "chat"}, "the tokenizer has no chat template; use 'auto' or 'none'"),
        ({"max_length": 10, "max_prompt_length": 10}, "leaves no room for a response in max_length 10"),
        ({"max_prompt_length": 0}, "lower max_prompt_length or raise max_length"),
        ({"max_length": 1}, "leaves no room"),
    ],
)
def test_settings_that_cannot_work_are_refused(tokenizer, options, says):
    with pytest.raises(InputError, match=says):
        Encoder(tokenizer, **options)


def test_a_tokenizer_without_an_end_of_sequence_is_refused(tokenizer):
    tokenizer.eos_token = None
    with pytest.raises(InputError, match=r"set tokenizer\.eos_token"):
        Encoder(tokenizer)
