"""lm-eval's tasks offline: on a tiny random model with files made here, and on SmolLM2 with real ones."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model

from gapo.errors import InputError
from gapo.evaluate import reasoning
from gapo.evaluate.reasoning import TaskSettings, run_tasks
from gapo.evaluate.subject import load_subject
from gapo.storage import cache_folder

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
needs_extra = pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="the extra gapo[eval] is absent")


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def questions(place):
    """Six questions of ARC's form in words the tiny tokenizer knows."""
    words = ["red blue", "cat", "dog bird fish", "three", "good", "bad not"]
    rows = [
        {
            "id": str(i),
            "question": f"what is {words[i]}",
            "choices": {"text": [words[i], words[(i + 1) % 6]], "label": ["A", "B"]},
            "answerKey": "AB"[i % 2],
        }
        for i in range(6)
    ]
    write(place / "data" / "arc_challenge" / "test.jsonl", rows)
    write(place / "data" / "arc_challenge" / "fewshot.jsonl", rows[:3])
    return rows


@torch.no_grad()
def likelier(subject, context, choices):
    """Which choice has the larger log-prob after the context, a row at a time."""
    found = []
    for choice in choices:
        before, whole = (subject.tokenizer(text)["input_ids"] for text in (context, f"{context} {choice}"))
        logps = subject.model(input_ids=torch.tensor([whole])).logits[0].log_softmax(-1)
        found.append(sum(float(logps[i - 1, whole[i]]) for i in range(len(before), len(whole))))
    return int(found[1] > found[0])


@needs_extra
def test_multiple_choice_on_a_tiny_model_is_what_log_probs_say(questions):
    subject = load_subject("model")
    found = run_tasks(subject, ["arc_challenge"], TaskSettings(data_dir=Path("data"), limit=5))
    task = found["tasks"]["arc_challenge"]
    right = [
        float(
            "AB".index(row["answerKey"])
            == likelier(subject, f"Question: {row['question']}\nAnswer:", row["choices"]["text"])
        )
        for row in questions[:5]
    ]
    assert list(task["items"]["acc,none"].values()) == right
    assert task["metrics"]["acc,none"]["value"] == pytest.approx(sum(right) / 5)
    low, high = (task["metrics"]["acc,none"][key] for key in ("low", "high"))
    assert 0 <= low <= sum(right) / 5 <= high <= 1
    assert (task["n"], task["of"], task["complete"], task["num_fewshot"], task["version"]) == (5, 6, False, 0, 1.0)
    assert found["lm_eval"] == "0.4.13" or found["lm_eval"].startswith("0.4.")
    json.dumps(found, allow_nan=False)


@needs_extra
def test_adapters_are_measured_on_their_base(questions):
    """Adapters that are still zero change nothing; the items are those of the base."""
    base = load_subject("model")
    get_peft_model(load_subject("model").model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained("adapters")
    path = Path("adapters", "adapter_config.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": "model"}))
    settings = TaskSettings(data_dir=Path("data"))
    adapted, plain = (run_tasks(one, ["arc_challenge"], settings) for one in (load_subject("adapters"), base))
    assert adapted == plain


@needs_extra
def test_few_shot_prompts_follow_the_seed(questions):
    def items(seed):
        settings = TaskSettings(data_dir=Path("data"), num_fewshot=2, seed=seed)
        return run_tasks(load_subject("model"), ["arc_challenge"], settings)["tasks"]["arc_challenge"]

    assert items(1) == items(1)
    assert items(1)["num_fewshot"] == 2


@needs_extra
@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("arc_challenge", {"num_fewshot": 3}, "needs more than 3 items"),
        ("gsm8k", {}, "no file gsm8k/test.jsonl"),
        ("arc_challenge", {"chat_template": True}, "no chat template"),
        ("arc_challenge", {"data_dir": None}, "--data-dir DIR"),
    ],
    ids=["too few", "no file", "no template", "offline"],
)
def test_what_cannot_be_run_is_said_in_a_sentence(questions, task, settings, words):
    with pytest.raises(InputError, match=words):
        run_tasks(load_subject("model"), [task], TaskSettings(**{"data_dir": Path("data"), **settings}))


def test_a_missing_extra_is_named(place, monkeypatch):
    monkeypatch.setattr(reasoning.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"gsm8k and arc_challenge .* pip install 'gapo\[eval\]'"):
        run_tasks(None, ["gsm8k", "arc_challenge"], TaskSettings())


@needs_extra
def test_smollm2_on_real_questions():
    missing = [name for name in ("gsm8k", "arc_challenge") if not (DATA / name / "test.jsonl.gz").is_file()]
    if missing:
        pytest.skip(f"{missing[0]} is not beside the project; it is never shipped")
    if not list(cache_folder("models").glob("smollm2-135m-instruct-*")):
        pytest.skip("SmolLM2 is not in the cache; gapo train quickstart fetches it")
    settings = TaskSettings(data_dir=DATA, limit=8, num_fewshot=1, max_new_tokens=8)
    found = run_tasks(load_subject("smollm2-135m-instruct"), ["gsm8k", "arc_challenge"], settings)
    tasks = found["tasks"]
    assert {name: (task["n"], task["of"]) for name, task in tasks.items()} == {
        "gsm8k": (8, 1319),
        "arc_challenge": (8, 1172),
    }
    assert {"exact_match,strict-match", "exact_match,flexible-extract"} <= set(tasks["gsm8k"]["metrics"])
    assert {"acc,none", "acc_norm,none"} <= set(tasks["arc_challenge"]["metrics"])
    assert tasks["gsm8k"]["version"] == 3.0
