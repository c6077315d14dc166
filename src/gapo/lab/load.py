"""What ships with the laboratory: the start model and the preference pairs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerBase

from gapo.pairs.pair import PairSet, PreferencePair
from gapo.storage import whole_file

START_FOLDER = Path(__file__).parent / "start"
PAIRS_FOLDER = Path(__file__).parent.parent / "data" / "lab"


def load_start() -> tuple[LlamaForCausalLM, PreTrainedTokenizerBase]:
    """A fresh copy of the start model, in evaluation mode, and its tokenizer."""
    model = LlamaForCausalLM.from_pretrained(START_FOLDER, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(START_FOLDER, local_files_only=True, trust_remote_code=False)
    return model.train(False), tokenizer


def pairs_file(part: Literal["train", "test"]) -> Path:
    return PAIRS_FOLDER / f"{part}.jsonl.gz"


def load_pairs(part: Literal["train", "test"]) -> PairSet:
    """The shipped pairs; their labels are true, so `flipped` is False."""
    path = pairs_file(part)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = (PreferencePair(**row, flipped=False, source=f"{path.name}:{i + 1}") for i, row in enumerate(rows))
    return PairSet(tuple(pairs), name=f"lab-{part}")


def write_pairs(pairs: Iterable[PreferencePair], path: Path) -> None:
    """One row per pair; no time stamp in the archive, so the same pairs are the same bytes."""
    rows = ({"prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected} for pair in pairs)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with whole_file(path) as part:
        part.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
