"""Make the laboratory from a seed: `python -m gapo.lab.make --seed 0` (a few minutes on one thread)."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from gapo.errors import InputError
from gapo.lab.choose import choose_pairs
from gapo.lab.learn import Schedule, build_model, learn
from gapo.lab.load import PAIRS_FOLDER, START_FOLDER, write_pairs
from gapo.lab.measures import skill_kept
from gapo.lab.split import split_requests
from gapo.lab.tokenizer import build_tokenizer
from gapo.storage import whole_folder

RECORD = "make.json"
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")


def make(seed: int, start: Path, pairs: Path, schedule: Schedule) -> dict[str, Any]:
    """Train the start model, sample the pairs from it, write both, and return what `make.json` says."""
    if start.is_dir() and any(start.iterdir()) and not (start / RECORD).is_file():  # it is replaced as a whole
        raise InputError(f"{start} holds something else than a start model; choose another --start")
    split = split_requests(seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed)
    loss = learn(model, tokenizer, split.supervised, schedule, seed)
    for name, requests, offset in (("train", split.train, 1), ("test", split.test, 2)):
        chosen = choose_pairs(model, tokenizer, [request.prompt for request in requests], seed + offset)
        write_pairs(chosen, pairs / f"{name}.jsonl.gz")
    record = {
        "seed": seed,
        **asdict(schedule),
        "supervised_requests": len(split.supervised),
        "parameters": sum(p.numel() for p in model.parameters()),
        "loss": round(loss, 4),
        "skill": skill_kept(model, tokenizer),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    with whole_folder(start) as part:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        (part / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, default=START_FOLDER, help="folder of the start model")
    parser.add_argument("--pairs", type=Path, default=PAIRS_FOLDER, help="folder of the preference pairs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums in one order: the same seed gives the same bytes
    torch.use_deterministic_algorithms(True)
    began = time.perf_counter()
    record = make(arguments.seed, arguments.start, arguments.pairs, Schedule())
    print(json.dumps(record, indent=2))
    print(f"made in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
