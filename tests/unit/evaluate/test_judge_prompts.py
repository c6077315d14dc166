"""Templates: places filled at once, files of the user's, official texts known by their digest."""

from __future__ import annotations

import hashlib
import json

import pytest

from gapo.errors import InputError
from gapo.evaluate import judge_prompts
from gapo.evaluate.judge_prompts import FIVE_STEPS, ONE_TOKEN, WHICH_IS_BETTER, read_template, template

USER = "Q: {instruction} m: {output_1} M: {output_2}"
CHATML = f"<|im_start|>system\nBe fair.\n<|im_end|>\n<|im_start|>user\n{USER}\n<|im_end|>"
YAML = """
judge_model: x
system_prompt: "Be fair."
prompt_template: ["Q: {question_1} A: {answer_1} B: {answer_2}"]
"""


@pytest.mark.parametrize("own", [ONE_TOKEN, FIVE_STEPS, WHICH_IS_BETTER], ids=lambda each: each.name)
def test_our_own_prompts_have_every_place_once(own):
    filled = own.filled("the QUESTION", "the FIRST", "the SECOND")
    text = "\n".join(message["content"] for message in filled)
    assert [text.count(f"the {word}") for word in ("QUESTION", "FIRST", "SECOND")] == [1, 1, 1]
    assert text.index("the FIRST") < text.index("the SECOND")
    assert [message["role"] for message in filled] == ["system", "user"]
    assert "official" not in own.name


def test_an_answer_with_the_name_of_a_place_stays_as_it_is():
    own = template("t", [("user", "{instruction}|{output_1}|{output_2}")])
    filled = own.filled("{output_1}", "{output_2} {x}", "{instruction}\\1")
    assert filled == [{"role": "user", "content": "{output_1}|{output_2} {x}|{instruction}\\1"}]


@pytest.mark.parametrize(("name", "text"), [("a.txt", CHATML), ("a.yaml", YAML)])
def test_files_in_the_official_forms_are_read(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = read_template(tmp_path / name)
    assert found.filled("q", "1", "2")[0] == {"role": "system", "content": "Be fair."}
    assert found.filled("q", "1", "2")[1]["content"].startswith("Q: q ")
    assert found.name.startswith("a@")


def test_plain_text_is_one_message(tmp_path):
    (tmp_path / "mine.txt").write_text("Which? {instruction} / {output_1} / {output_2}\n")
    assert read_template(tmp_path / "mine.txt").filled("q", "1", "2") == [
        {"role": "user", "content": "Which? q / 1 / 2"}
    ]


def test_a_prompt_is_official_by_its_text_alone(tmp_path, monkeypatch):
    """We ship no official text; the rule is shown on a text whose digest is put in their place."""
    messages = [["system", "Be fair."], ["user", USER]]
    digest = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
    monkeypatch.setitem(judge_prompts.OFFICIAL, digest, judge_prompts.ALPACA_OFFICIAL)
    (tmp_path / "whatever.txt").write_text(CHATML + "\n\n")
    assert read_template(tmp_path / "whatever.txt").name == judge_prompts.ALPACA_OFFICIAL
    (tmp_path / "alpaca_eval_clf.txt").write_text(CHATML.replace("fair", "kind"))
    assert "official" not in read_template(tmp_path / "alpaca_eval_clf.txt").name


def test_a_file_without_a_place_says_which(tmp_path):
    (tmp_path / "bad.txt").write_text("{instruction} {output_1}")
    with pytest.raises(InputError, match=r"bad.txt has no place for the second"):
        read_template(tmp_path / "bad.txt")
    (tmp_path / "bad.yaml").write_text("prompt_template: [a, b]")
    with pytest.raises(InputError, match="one turn"):
        read_template(tmp_path / "bad.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read_template(tmp_path / "none.txt")
