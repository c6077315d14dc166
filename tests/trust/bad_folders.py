"""Folders that commands read back: runs, audits, studies, judgings, answers, prompts, each broken one way."""

# ruff: noqa: E501 - a case a line: a table reads better than its parts
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from corpus import Case, jsonl

from gapo.evaluate.verdicts import write_judging
from judgings import game, judging

RECIPE = (
    "model: {name: model}\ndata: {train: pairs.jsonl}\nobjective: {name: gapo}\ntrain: {output_dir: run, seed: 0}\n"
)
JUDGE = ("judge", "ours.jsonl", "--bench", "prompts.jsonl", "--against", "theirs.jsonl", "--base-url", "http://127.0.0.1:9/v1", "--model", "j", "--out", "judged", "--yes", "-q")  # fmt: skip
TRAIN = ("train", "mini", "objective.name=gapo", "model.name=model", "data.train=pairs.jsonl")
GENERATE = ("generate", "model", "--bench", "prompts.jsonl", "--out", "answers.jsonl", "--max-new-tokens", "2", "-q")
Write = Callable[[Path], object]


def made(**files: str | bytes) -> Write:
    """A folder `run` with these files; `_` stands for the dot."""

    def write(folder: Path) -> None:
        (folder / "run").mkdir(exist_ok=True)
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / "run" / name.replace("_", ".")).write_bytes(data)

    return write


def together(*writes: Write) -> Write:
    return lambda folder: [write(folder) for write in writes]


def at(name: str, content: str | bytes) -> Write:
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def judged(spoil: Write) -> Write:
    def write(folder: Path) -> None:
        write_judging(judging([game(str(i), 0.25 * i) for i in range(4)]), folder / "judged")
        spoil(folder / "judged")

    return write


def changed(file: str, **changes: object) -> Write:
    """Each line of a JSON file with other values."""

    def write(folder: Path) -> None:
        path = folder / file
        rows = (
            [json.loads(path.read_text())] if file.endswith(".json") else map(json.loads, path.read_text().splitlines())
        )
        path.write_bytes(jsonl(*({**row, **changes} for row in rows)))

    return write


REPORT = ("report", "run", "-q")
RUNS = [
    Case("report: not there", ("report", "gone", "-q"), "no such folder", "gone"),
    Case("report: a file", ("report", "pairs.jsonl", "-q"), "is not a run", "pairs.jsonl"),
    Case("report: an empty folder", REPORT, "no recipe.yaml", "run", made()),
    Case("report: a folder of runs", ("report", ".", "-q"), "it holds the runs run", "run", made(recipe_yaml=RECIPE)),
    Case("report: recipe is no YAML", REPORT, "not readable YAML", "recipe.yaml", made(recipe_yaml="model: {")),
    Case("report: recipe is latin-1", REPORT, "not readable YAML", "recipe.yaml", made(recipe_yaml=b"a: \xe9")),
    Case("report: recipe is a list", REPORT, "should hold sections", "recipe.yaml", made(recipe_yaml="[1]")),
    Case("report: recipe is empty", REPORT, "should hold sections", "recipe.yaml", made(recipe_yaml="")),
    Case("report: recipe contains itself", REPORT, "contain itself", "recipe.yaml", made(recipe_yaml="a: &a [*a]")),
    Case("report: out below a file", (*REPORT, "--out", "pairs.jsonl/x.html"), "cannot be", "pairs.jsonl/x.html", made(recipe_yaml=RECIPE)),
    Case("compare: one run", ("compare", "run", "-q"), "at least two different runs", "compare", made(recipe_yaml=RECIPE)),
    Case("compare: a run and nothing", ("compare", "run", "gone", "-q"), "no such folder", "gone", made(recipe_yaml=RECIPE)),
    Case("compare: a run and an audit", ("compare", "run", "audit", "-q"), "only runs are compared", "audit", together(made(recipe_yaml=RECIPE), lambda f: (f / "audit").mkdir(), at("audit/audit.json", "{}"))),
    Case("train: the folder is a file", (*TRAIN, "train.output_dir=out.jsonl", "-q"), "is a file", "out.jsonl"),
    Case("train: the folder is not empty", (*TRAIN, "train.output_dir=run", "-q"), "not empty", "run", made(notes_txt="mine")),
    Case("train: the run is not finished", (*TRAIN, "train.output_dir=run", "-q"), "not finished", "run", made(recipe_yaml=RECIPE)),
    Case("resume: no run", (*TRAIN, "train.output_dir=run", "--resume", "-q"), "no run to resume", "run", made(notes_txt="mine")),
    Case("resume: another recipe", (*TRAIN, "train.output_dir=run", "--resume", "-q"), "other values of", "run", made(recipe_yaml=RECIPE)),
    Case("resume: recipe is no YAML", (*TRAIN, "train.output_dir=run", "--resume", "-q"), "no run to resume", "run", made(recipe_yaml="model: {")),
    Case("resume: recipe with a list for a section", (*TRAIN, "train.output_dir=run", "--resume", "-q"), "no run to resume|other values", "run", made(recipe_yaml="model: [1]\n3: {4: 5}\n")),
    Case("eval: a run without a model", ("eval", "reward", "run", "--data", "pairs.jsonl", "-q"), "has no model yet", "run", made(recipe_yaml=RECIPE)),
    Case("eval: a run whose adapters have no recipe", ("eval", "reward", "run", "--data", "pairs.jsonl", "-q"), "recipe.yaml|adapters", "run", together(made(recipe_yaml="- 3"), lambda f: (f / "run" / "model").mkdir(), at("run/model/adapter_config.json", "{}"))),
    Case("eval: unknown objective", ("eval", "reward", "model", "--data", "pairs.jsonl", "--objective", "dpoo", "-q"), "did you mean 'dpo'", "dpoo"),
    Case("eval: nearly a command", ("eval", "rewards", "model", "-q"), "did you mean 'reward'", "rewards"),
    Case("eval: no task", ("eval", "tasks", "model", "-q"), "the model last", "model"),
    Case("eval all: judged is no folder", ("eval", "all", "model", "--against", "model", "--judged", "gone", "-q"), "holds no judging", "gone"),
    Case("select: scores that are no table", (*TRAIN, "data.select={from: s.parquet, share: 0.5}", "train.output_dir=run", "train.use_cpu=true", "-q"), "not a readable table", "s.parquet", at("s.parquet", "words")),
    Case("select: scores without the column", (*TRAIN, "data.select={from: s.csv, share: 0.5}", "train.output_dir=run", "train.use_cpu=true", "-q"), "has no column", "s.csv", at("s.csv", "pair_id,other\n1,2\n")),
    Case("select: scores of words", (*TRAIN, "data.select={from: s.csv, share: 0.5}", "train.output_dir=run", "train.use_cpu=true", "-q"), "gap", "s.csv", at("s.csv", "pair_id,gap\n1,high\n")),
    Case("select: scores of other pairs", (*TRAIN, "data.select={from: s.csv, share: 0.5}", "train.output_dir=run", "train.use_cpu=true", "-q"), "of none of these", "s.csv", at("s.csv", "pair_id,gap\n1,0.5\n")),
    Case("select: cut JSONL", (*TRAIN, "data.select={from: s.jsonl, share: 0.5}", "train.output_dir=run", "train.use_cpu=true", "-q"), "not a readable table", "s.jsonl", at("s.jsonl", '{"pair_id": "1", "ga')),
    Case("select: a folder without scores", (*TRAIN, "data.select={from: model, share: 0.5}", "train.output_dir=run", "train.use_cpu=true", "-q"), "has neither", "model"),
]  # fmt: skip

AUDITS = [
    Case("audit: out is a file", ("audit", "pairs.jsonl", "--model", "model", "--out", "out.jsonl", "-q"), "is a file", "out.jsonl"),
    Case("audit: out is not empty", ("audit", "pairs.jsonl", "--model", "model", "--out", "run", "-q"), "not empty and holds no audit", "run", made(notes_txt="mine")),
    Case("audit: keep without a file", ("audit", "pairs.jsonl", "--model", "model", "--keep", "stable", "-q"), "needs a file", "--keep"),
    Case("audit: unknown keep", ("audit", "pairs.jsonl", "x.jsonl", "--model", "model", "--keep", "stabel", "-q"), "did you mean 'stable'", "stabel"),
    Case("audit: a fraction of NaN", ("audit", "pairs.jsonl", "x.jsonl", "--model", "model", "--keep", "stable", "--fraction", "nan", "-q"), "must lie above 0", "--fraction"),
    Case("audit: kept is there", ("audit", "pairs.jsonl", "out.jsonl", "--model", "model", "--keep", "stable", "-q"), "exists", "out.jsonl"),
    Case("audit: a radius of NaN", ("audit", "pairs.jsonl", "--model", "model", "--radius", "nan", "--out", "a", "-q"), "radius", "radius"),
    Case("audit: a beta of inf", ("audit", "pairs.jsonl", "--model", "model", "--beta", "inf", "--out", "a", "-q"), "beta", "beta"),
    Case("audit: a scope of nothing", ("audit", "pairs.jsonl", "--model", "model", "--scope", "nowhere", "--out", "a", "-q"), "scope", "nowhere"),
    Case("audit: unknown dtype", ("audit", "pairs.jsonl", "--model", "model", "--dtype", "float8", "--out", "a", "-q"), "unknown --dtype", "float8"),
    Case("report: audit without a table", ("report", "run", "-q"), "not finished|holds no audit", "run", made(audit_json="{}")),
    Case("report: audit is no JSON", ("report", "run", "-q"), "holds no audit|not finished", "run", made(audit_json="{", audit_parquet="PAR1")),
    Case("report: audit table is cut", ("report", "run", "-q"), "not a whole Parquet", "audit.parquet", made(audit_json="{}", audit_parquet="PAR1")),
    Case("report: audit without its numbers", ("report", "run", "-q"), "audit", "run", together(made(audit_json="{}"), lambda f: pq.write_table(pa.table({"pair_id": ["a"]}), f / "run" / "audit.parquet"))),
    Case("report: study is no JSON", ("report", "run", "-q"), "no readable study", "run", made(rows_jsonl="{", about_json="{")),
    Case("report: study without a command", ("report", "run", "-q"), "no readable study", "run", made(rows_jsonl="", about_json="{}")),
    Case("report: study that is a list", ("report", "run", "-q"), "no readable study", "run", made(rows_jsonl="", about_json="[]")),
    Case("report: study of another name", ("report", "run", "-q"), "names no study", "about.json", made(rows_jsonl="", about_json='{"command": "gapo study abacus"}')),
    Case("report: study with rows of lists", ("report", "run", "-q"), "no readable study", "run", made(rows_jsonl="[1]\n", about_json='{"command": "gapo study noise"}')),
    Case("study: unknown", ("study", "noize", "--plan", "-q"), "did you mean 'noise'", "noize"),
    Case("study: unknown scale", ("study", "noise", "--scale", "giant", "--plan", "-q"), "giant", "giant"),
]  # fmt: skip

SCORE = ("score", "judged", "-q")
JUDGED = [
    Case("score: not there", ("score", "gone", "-q"), "holds no judging", "gone"),
    Case("score: an empty folder", SCORE, "holds no judging", "judged", lambda f: (f / "judged").mkdir()),
    Case("score: no verdicts file", SCORE, "verdicts.jsonl is missing", "judged", judged(lambda f: (f / "verdicts.jsonl").unlink())),
    Case("score: judging is no JSON", SCORE, "cannot be read", "judged", judged(at("judging.json", "{"))),
    Case("score: judging is a list", SCORE, "cannot be read", "judged", judged(at("judging.json", "[]"))),
    Case("score: judging is latin-1", SCORE, "cannot be read", "judged", judged(at("judging.json", b'{"a": "\xe9"}'))),
    Case("score: judging without a bench", SCORE, "cannot be read", "judged", judged(changed("judging.json", bench=None))),
    Case("score: verdicts cut off", SCORE, "cannot be read", "judged", judged(at("verdicts.jsonl", '{"id": "1"'))),
    Case("score: verdicts of numbers", SCORE, "cannot be read", "judged", judged(at("verdicts.jsonl", "1\n2\n"))),
    Case("score: verdicts with other fields", SCORE, "cannot be read", "judged", judged(changed("verdicts.jsonl", mood="good"))),
    Case("score: no verdicts", SCORE, "holds no game", "judged", judged(at("verdicts.jsonl", ""))),
    Case("score: preference of words", SCORE, "cannot be read", "judged", judged(changed("verdicts.jsonl", preference="good"))),
    Case("score: preference of NaN", SCORE, "cannot be read", "judged", judged(changed("verdicts.jsonl", preference=float("nan")))),
    Case("score: preference of 7", SCORE, "cannot be read", "judged", judged(changed("verdicts.jsonl", preference=7))),
    Case("score: weight of words", SCORE, "cannot be read", "judged", judged(changed("verdicts.jsonl", weight="heavy"))),
    Case("score: unknown status", SCORE, "cannot be read", "judged", judged(changed("verdicts.jsonl", status="lost"))),
    Case("score: annotations that are no JSON", ("score", "a.json", "-q"), "cannot be read as JSON", "a.json", at("a.json", "{")),
    Case("score: annotations of nothing", ("score", "a.json", "-q"), "no list of annotations", "a.json", at("a.json", "[]")),
    Case("score: annotations of numbers", ("score", "a.json", "-q"), "row 1 has no instruction", "a.json", at("a.json", "[3]")),
    Case("score: annotations with a preference of 9", ("score", "a.json", "-q"), "preference 9", "a.json", at("a.json", json.dumps([dict.fromkeys(("instruction", "output_1", "output_2", "generator_1", "generator_2"), "x") | {"preference": 9}]))),
]  # fmt: skip


def asked(prompts: object = None, ours: object = None, theirs: object = None) -> Write:
    """Prompts and two files of answers; bytes or rows replace the sound ones."""
    questions = [{"id": str(n), "prompt": f"question {n}"} for n in range(3)]
    answers = [{**row, "output": f"answer {row['id']}"} for row in questions]

    def write(folder: Path) -> None:
        for name, rows, own in (("prompts", questions, prompts), ("ours", answers, ours), ("theirs", answers, theirs)):
            content = rows if own is None else own
            data = content if isinstance(content, bytes) else jsonl(*content)  # type: ignore[misc]
            (folder / f"{name}.jsonl").write_bytes(data)

    return write


ROW = {"id": "0", "prompt": "question 0", "output": "a"}
ASKED = [
    Case("generate: no prompts", GENERATE, "holds no prompts", "prompts.jsonl", asked(b"")),
    Case("generate: prompts are no JSON", GENERATE, "not JSON", "prompts.jsonl:1", asked(b"hello\n")),
    Case("generate: prompts of numbers", GENERATE, "is no object", "prompts.jsonl:1", asked(b"3\n")),
    Case("generate: rows without a prompt", GENERATE, "has no prompt", "prompts.jsonl:1", asked([{"question": "a"}])),
    Case("generate: an empty prompt", GENERATE, "empty prompt", "prompts.jsonl:1", asked([{"prompt": " "}])),
    Case("generate: a prompt of numbers", GENERATE, "empty prompt|not text", "prompts.jsonl:1", asked([{"prompt": 3}])),
    Case("generate: an id twice", GENERATE, "the id '1'", "prompts.jsonl", asked([{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}])),
    Case("generate: a prompt twice", GENERATE, "asks the same", "prompts.jsonl", asked([{"prompt": "a"}, {"prompt": "a"}])),
    Case("generate: prompts of two turns", GENERATE, "2 turns", "prompts.jsonl:1", asked([{"prompt": [{"content": "a"}, {"content": "b"}]}])),
    Case("generate: a lone surrogate", GENERATE, "UTF-8", "prompts.jsonl:1", asked([{"prompt": "a \ud800"}])),
    Case("generate: no such file", GENERATE, "does not exist", "prompts.jsonl"),
    Case("generate: unknown bench", ("generate", "model", "--bench", "alpacaevil", "-q"), "did you mean 'alpacaeval'", "alpacaevil"),
    Case("generate: text that is latin-1", ("generate", "model", "--bench", "p.txt", "-q"), "not UTF-8", "p.txt", at("p.txt", b"caf\xe9\n")),
    Case("generate: Parquet that is cut", ("generate", "model", "--bench", "p.parquet", "-q"), "not a whole parquet", "p.parquet", at("p.parquet", b"PAR1")),
    Case("generate: out of another kind", (*GENERATE[:5], "answers.json", "-q"), "must end in .jsonl", "answers.json", asked()),
    Case("generate: temperature of NaN", (*GENERATE, "--temperature", "nan"), "--temperature must be", "nan", asked()),
    Case("generate: top-p of 0", (*GENERATE, "--top-p", "0"), "--top-p must", "0", asked()),
    Case("generate: no tokens", (*GENERATE[:-3], "--max-new-tokens", "0"), "must be 1 or more", "--max-new-tokens", asked()),
    Case("generate: answers that are no JSON", GENERATE, "answers", "answers.jsonl", together(asked(), at("answers.jsonl", "hello"))),
    Case("generate: about that is no JSON", GENERATE, "not JSON", "answers.about.json", together(asked(), at("answers.jsonl", jsonl(ROW)), at("answers.about.json", "{"))),
    Case("judge: no answers", JUDGE, "no answer to 3", "ours.jsonl", asked(ours=b"")),
    Case("judge: answers are no JSON", JUDGE, "not JSON", "ours.jsonl:1", asked(ours=b"hello")),
    Case("judge: answers without output", JUDGE, "has no answer", "ours.jsonl:1", asked(ours=[{"id": "0"}])),
    Case("judge: answers to nothing", JUDGE, "does not say what it answers", "ours.jsonl:1", asked(ours=[{"output": "a"}])),
    Case("judge: an answer twice", JUDGE, "twice", "ours.jsonl", asked(ours=[ROW, ROW])),
    Case("judge: other questions", JUDGE, "another question", "ours.jsonl:1", asked(ours=[{**ROW, "prompt": "else"}])),
    Case("judge: several models", JUDGE, "several models", "theirs.jsonl", asked(theirs=[{"id": str(n), "output": "a", "model": f"m{n}"} for n in range(3)])),
    Case("judge: choices of nothing", JUDGE, "no answer of Arena-Hard", "ours.jsonl:1", asked(ours=[{"question_id": "0", "choices": []}])),
    Case("judge: choices of words", JUDGE, "no answer of Arena-Hard", "ours.jsonl:1", asked(ours=[{"question_id": "0", "choices": "many"}])),
    Case("judge: turns of words", JUDGE, "Arena-Hard", "ours.jsonl:1", asked(ours=[{"question_id": "0", "choices": [{"turns": ["a"]}]}])),
    Case("judge: a price of one side", (*JUDGE, "--price-in", "1"), "give both", "--price-in", asked()),
    Case("judge: a URL of words", (*JUDGE[:7], "localhost", *JUDGE[8:]), "base URL", "http", asked()),
    Case("judge: prompt file not there", (*JUDGE, "--prompt-file", "gone.txt"), "cannot be read", "gone.txt", asked()),
    Case("judge: prompt file without places", (*JUDGE, "--prompt-file", "p.txt"), "no place for", "p.txt", together(asked(), at("p.txt", "which?"))),
    Case("judge: prompt file that is no YAML", (*JUDGE, "--prompt-file", "p.yaml"), "not YAML", "p.yaml", together(asked(), at("p.yaml", "{"))),
    Case("judge: prompt file with no turns", (*JUDGE, "--prompt-file", "p.yaml"), "prompt_template of one turn", "p.yaml", together(asked(), at("p.yaml", "prompt_template: []"))),
]  # fmt: skip

FOLDERS = [*RUNS, *AUDITS, *JUDGED, *ASKED]
