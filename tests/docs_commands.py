"""What the docs show and what the tests do with it: fenced blocks, the lines in them, the class of each line.

A line of `gapo` is run as it stands, in a folder with the files that the docs name; a long training is cut short by
overrides behind it. What needs a GPU, the Hub, a server or minutes is parsed by the real command line instead, and its
recipe is read with all its overrides. A line in neither class fails.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = ("", "bash", "sh", "console")

SHORT = ("data.limit=48", "data.eval_limit=12", "train.max_steps=2", "train.per_device_train_batch_size=4")
OWN = ("model.name=DIR", "data.train=pairs.jsonl")  # a model of 60 words in the place of the lab's

PARSED = {
    r"gapo train quickstart\b": "fetches SmolLM2 and trains it for minutes",
    r"gapo train mini .*--processes": "tests/distributed runs it",
    r"gapo train .*train\.save_steps=": "tests/integration/test_resuming.py and test_kills.py run it",
    r"gapo train runs/mine/gapo/recipe\.yaml --resume": "the same",
    r"gapo train mini .*objective\.name=\[": "several runs; `gapo train mini` makes two",
    r"gapo audit\b.*smollm2": "needs SmolLM2",
    r"gapo watch": "serves until it is interrupted; tests/unit/report/test_live.py watches a run",
    r"gapo train smollm2-": "fetches SmolLM2; tests/unit/runs/test_dry_run.py reads the recipes",
    r"gapo eval gsm8k": "lm-eval's data are on the Hub",
    r"gapo eval all MODEL .*--task": "lm-eval's data are on the Hub",
    r"gapo generate .*--bench (alpacaeval|arena-hard)": "the official questions are on the Hub",
    r"gapo judge": "needs a judge's server; tests/unit/evaluate/test_judge_command.py has one",
    r"gapo score annotations\.json": "needs AlpacaEval's own annotations",
    r"gapo study real\b": "hours of training; tests/integration/test_real_studies.py makes one in small",
    r"gapo study (tuning|noise|all)\b": "hours of training; tests/integration/test_studies.py plans and makes one",
    r"gapo bench": "minutes; tests/integration/test_bench.py runs it",
    r"accelerate launch": "needs several GPUs",
}
RUN = {  # and what is put behind the line to keep it short
    r"gapo train \S+ .*--(show|dry-run)": (),
    r"gapo train mini( --resume)?": SHORT,
    r"gapo train mini .*model\.name=.*": SHORT,
    r"gapo train mini .*": (*OWN, *SHORT),
    r"gapo (flip|report|list|doctor|study list|score)\b.*": (),
    r"gapo eval (all|reward|drift)\b.*": ("--limit", "12"),
    r"gapo generate lab\b.*": ("--max-new-tokens", "4"),
    r"gapo (audit|compare)\b.*": (),
}
ELSEWHERE = ("export", "vllm")  # other programs' commands


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str


@dataclass(frozen=True)
class Line:
    """A command as the page has it, without its comment."""

    page: Path
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    @property
    def parsed_because(self) -> str | None:
        return next((reason for pattern, reason in PARSED.items() if re.match(pattern, self.text)), None)

    @property
    def run_with(self) -> tuple[str, ...] | None:
        if self.parsed_because:
            return None
        return next((extra for pattern, extra in RUN.items() if re.fullmatch(pattern, self.text)), None)


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return [Block(page, language, text) for language, text in found]


def lines(page: Path) -> list[Line]:
    """Commands of a page in their order; a block that draws a tree of files has none."""
    found = []
    for block in blocks(page):
        if block.language in SHELL and not re.match(r"\w+/ ", block.text):
            whole = block.text.replace("\\\n", " ")
            stripped = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in whole.splitlines())
            found += [Line(page, text) for text in stripped if text]
    return found
