"""Answers are made once: after a kill, for a larger limit, and never mixed with another maker's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tiny
from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.answers import read_answers
from gapo.evaluate.batched import BatchedAnswerer
from gapo.evaluate.generation import Decoding, Keep, generate_answers
from gapo.evaluate.partial import Made
from gapo.evaluate.questions import Bench, Question, bench_named, first_questions


class Counting:
    """Answers with the prompt reversed, two at a time, and counts what it was asked; may break on the way."""

    def __init__(self, model: str = "m", breaks_after: int | None = None, **facts: Any) -> None:
        self.model, self.facts, self.notes = model, {"temperature": 0.0, **facts}, {}
        self.asked: list[str] = []
        self.breaks_after = breaks_after

    def answer(self, questions: Sequence[Question], keep: Keep) -> None:
        for start in range(0, len(questions), 2):
            if self.breaks_after is not None and start >= self.breaks_after:
                raise ConnectionError("the power went")
            some = questions[start : start + 2]
            self.asked += [each.id for each in some]
            keep([Made(each.id, each.prompt[::-1], len(each.prompt), "end") for each in some])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "asked.txt").write_text("".join(f"question {i}\n" for i in range(7)))
    return bench_named(str(tmp_path / "asked.txt"))


def test_what_was_made_before_a_break_is_not_made_again(bench: Bench, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    generate_answers(Counting(), bench, whole)
    with pytest.raises(ConnectionError):
        generate_answers(Counting(breaks_after=4), bench, out)
    assert not out.exists()
    partial = tmp_path / "out.partial.jsonl"
    partial.write_bytes(partial.read_bytes() + b'{"id": "4", "prompt": "quest')  # killed inside a line
    heard: list[int] = []
    again = Counting()
    generate_answers(again, bench, out, lambda done, total: heard.append(done))
    assert (again.asked, heard) == (["4", "5", "6"], [4, 6, 7])
    assert out.read_bytes() == whole.read_bytes()
    assert (tmp_path / "out.about.json").read_bytes() == (tmp_path / "whole.about.json").read_bytes()
    assert not partial.exists()
    idle = Counting()
    generate_answers(idle, bench, out)
    assert not idle.asked


def test_a_second_break_loses_nothing_either(bench: Bench, tmp_path: Path) -> None:
    asked = []
    for breaks in (2, 2, 2, None):
        maker = Counting(breaks_after=breaks)
        try:
            generate_answers(maker, bench, tmp_path / "out.jsonl")
        except ConnectionError:
            pass
        finally:
            asked += maker.asked
    assert asked == [each.id for each in bench.questions]


def test_a_larger_limit_makes_only_the_new_ones_and_a_smaller_one_takes_none_away(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    generate_answers(Counting(), first_questions(bench, 3), out)
    more = Counting()
    generate_answers(more, bench, out)
    assert more.asked == ["3", "4", "5", "6"]
    assert read_answers(out, bench).by_id["6"] == "6 noitseuq"
    with pytest.raises(InputError, match="holds 7 answers and these 3 questions would leave 3 of them"):
        generate_answers(Counting(), first_questions(bench, 3), out)


def test_answers_to_other_questions_stay_in_the_partial_file(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        generate_answers(Counting(breaks_after=4), bench, tmp_path / "out.jsonl")
    generate_answers(Counting(), first_questions(bench, 1), tmp_path / "out.jsonl")
    rest = Counting()
    generate_answers(rest, bench, tmp_path / "out.jsonl")
    assert rest.asked == ["4", "5", "6"]
    assert not (tmp_path / "out.partial.jsonl").exists()


def test_a_changed_prompt_is_asked_anew(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        generate_answers(Counting(breaks_after=4), bench, tmp_path / "out.jsonl")
    (tmp_path / "asked.txt").write_text("another\n" + "".join(f"question {i}\n" for i in range(1, 7)))
    maker = Counting()
    generate_answers(maker, bench_named(str(tmp_path / "asked.txt")), tmp_path / "out.jsonl")
    assert maker.asked == ["0", "4", "5", "6"]


@pytest.mark.parametrize("breaks", [4, None], ids=["unfinished", "finished"])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Counting("n"), "with answers of m, not of n"),
        (Counting(temperature=0.7), r"with temperature 0\.0, not 0\.7"),
        (Counting(system="hi"), "with system None, not 'hi'"),
        (Counting(weights="ab"), "with answers of other weights under the name m"),
    ],
)
def test_another_maker_does_not_mix(
    breaks: int | None, other: Counting, words: str, bench: Bench, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    try:
        generate_answers(Counting(breaks_after=breaks), bench, out)
    except ConnectionError:
        assert breaks
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=f"{words}; remove it or choose another --out"):
        generate_answers(other, bench, out)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert not other.asked


def test_a_file_of_unknown_origin_or_another_bench_stays(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine\n")
    with pytest.raises(InputError, match="exists and does not say how it was made"):
        generate_answers(Counting(), bench, out)
    generate_answers(Counting(), bench, tmp_path / "two.jsonl")
    (tmp_path / "b.txt").write_text("else\n")
    with pytest.raises(InputError, match=r"holds answers to asked\.txt, not to b\.txt"):
        generate_answers(Counting(), bench_named(str(tmp_path / "b.txt")), tmp_path / "two.jsonl")
    assert out.read_text() == "mine\n"


def test_cut_and_empty_answers_are_counted(bench: Bench, tmp_path: Path) -> None:
    answerer = BatchedAnswerer(tiny.mistral(), tiny.tiny_tokenizer(), "tiny", Decoding(4))
    answers = generate_answers(answerer, bench, tmp_path / "out.jsonl")
    made: dict[str, Made] = {}
    answerer.answer(bench.questions, lambda some: made.update({each.id: each for each in some}))
    cut = [each.id for each in bench.questions if made[each.id].finish == "length"]
    assert answers.notes["finish"] == ({"length": cut} if cut else {})
    assert answers.notes["cut"] == len(cut)
    assert answers.notes["empty"] == sum(not each.text for each in made.values())
    assert cut or answers.notes["empty"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((0,), "--max-new-tokens"),
        ((5, -1.0), "--temperature"),
        ((5, float("nan")), "--temperature"),
        ((5, 1.0, 0.0), "--top-p"),
    ],
)
def test_decoding_that_cannot_be_is_one_sentence(settings: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Decoding(*settings)


# --- the command ----------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from gapo.evaluate.partial import Partial
kept, keep = 0, Partial.keep

def then_killed(self, made, bench):
    global kept
    keep(self, made, bench)
    kept += 1
    if kept == 2:
        with open(self.path, "a") as file:
            file.write('{"id": "')
        os.kill(os.getpid(), signal.SIGKILL)

Partial.keep = then_killed
from gapo.cli.main import main
main()
"""


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    path = tmp_path / "scenes.txt"
    wanted = product(("red", "pink", "blue"), ("fox", "toad"), ("park calmly", "garden politely"))
    path.write_text(
        "".join(f"describe a {colour} {animal} that plays in the {end} :\n" for colour, animal, end in wanted)
    )
    return path


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["generate", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_killed_in_the_middle_and_run_again_gives_the_same_file(scenes: Path, tmp_path: Path) -> None:
    common = ["lab", "--bench", str(scenes), "--max-new-tokens", "20", "--temperature", "1.0", "--top-p", "0.9"]
    command = [sys.executable, "-c", KILLED, "generate", *common, "--batch-tokens", "100"]
    killed = subprocess.run(
        [*command, "--out", str(tmp_path / "k.jsonl")], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "k.jsonl").exists()
    kept = (tmp_path / "k.partial.jsonl").read_text().splitlines()[1:-1]
    assert 2 <= len(kept) < 12
    said = run(*common, "--out", tmp_path / "k.jsonl")
    assert f"{len(kept)} of 12 answers are there already" in said
    run(*common, "--out", tmp_path / "whole.jsonl", "--batch-tokens", 4000)
    assert (tmp_path / "k.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert (tmp_path / "k.about.json").read_bytes() == (tmp_path / "whole.about.json").read_bytes()
    texts = [json.loads(line)["output"] for line in (tmp_path / "k.jsonl").read_text().splitlines()]
    assert len(set(texts)) > 3


def test_the_command_writes_where_it_says_and_counts(
    scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("lab", "--bench", scenes, "--limit", 3, "--max-new-tokens", 2)
    assert "answers/scenes/lab.jsonl" in said
    assert "are cut at 2 tokens (--max-new-tokens)" in said
    assert len(Path("answers/scenes/lab.jsonl").read_text().splitlines()) == 3


def test_an_adapter_answers_as_the_merged_model_does(scenes: Path, tmp_path: Path) -> None:
    import torch

    from gapo.evaluate.answering_model import load_answering
    from gapo.model.load import load_policy
    from gapo.model.merge import save_merged

    policy = load_policy("lab", lora={"r": 2, "target_modules": ["q_proj", "v_proj"]})
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    policy.model.save_pretrained(tmp_path / "adapter")
    save_merged(policy.model, tmp_path / "merged", policy.tokenizer)
    policy.model.save_pretrained(tmp_path / "run" / "model")
    (tmp_path / "run" / "recipe.yaml").touch()
    common = ("--bench", scenes, "--max-new-tokens", 16, "--name", "x", "--out")
    run(tmp_path / "merged", *common, tmp_path / "merged.jsonl")
    run("lab", "--adapter", tmp_path / "adapter", *common, tmp_path / "named.jsonl")
    run(tmp_path / "run", *common, tmp_path / "run.jsonl")
    for name in ("named", "run"):
        assert (tmp_path / f"{name}.jsonl").read_bytes() == (tmp_path / "merged.jsonl").read_bytes()
    run("lab", *common, tmp_path / "start.jsonl")
    assert (tmp_path / "start.jsonl").read_bytes() != (tmp_path / "merged.jsonl").read_bytes()
    model, _ = load_answering(str(tmp_path / "merged"), dtype="bfloat16")
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bench", "alpacaval"), "did you mean 'alpacaeval'"),
        (("--bench", "scenes.txt", "--out", "a.json"), r"must end in \.jsonl"),
        (("--bench", "scenes.txt", "--dtype", "float8"), "unknown model.dtype 'float8'"),
        (("--bench", "scenes.txt", "--adapter", "."), "holds no adapters"),
        (
            ("--bench", "scenes.txt", "--base-url", "http://localhost:1/v1", "--dtype", "float32"),
            "--dtype is the server's",
        ),
    ],
)
def test_bad_words_are_one_sentence(
    words: tuple[str, ...], said: str, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        run("lab", *words)
