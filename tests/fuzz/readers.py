"""Coverage-guided fuzzing of the readers with atheris: `python tests/fuzz/readers.py pairs|recipe [libFuzzer options]`.

Not part of the tests (atheris is no dependency): `pip install atheris`, then for instance

    python tests/fuzz/readers.py pairs -max_total_time=120 -rss_limit_mb=2048 -timeout=20

What is found by it goes into tests/trust as a case.
"""

from __future__ import annotations

import gzip
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

KINDS = ("jsonl", "json", "csv", "parquet", "jsonl.gz", "json.gz", "csv.gz")


def pairs_target() -> Callable[[bytes], None]:
    """The first byte names the format; the rest is the file, packed for it where the format is packed."""
    from gapo.errors import InputError
    from gapo.pairs.formats import load_pairs

    folder = Path(tempfile.mkdtemp())

    def target(data: bytes) -> None:
        kind = KINDS[data[0] % len(KINDS)] if data else "jsonl"
        packed = kind.endswith(".gz") and data[0] < 128  # else the packing itself is tried
        path = folder / f"f.{kind}"
        path.write_bytes(gzip.compress(data[1:], 1) if packed else data[1:])
        try:
            for pair in load_pairs(path, cache=False):
                (pair.prompt_text + pair.chosen + pair.rejected + pair.id).encode()
        except InputError as error:
            need_one_line(str(error))

    return target


def recipe_target() -> Callable[[bytes], None]:
    """A recipe; what follows a NUL is an override."""
    import yaml

    from gapo.errors import InputError
    from gapo.runs.recipe import read_recipe, recipe_hash, runs_of

    path = Path(tempfile.mkdtemp()) / "f.yaml"
    read_recipe("mini")  # what is imported on the way takes long once

    def target(data: bytes) -> None:
        text, _, override = data.partition(b"\0")
        path.write_bytes(text)
        try:
            recipe = read_recipe(str(path), [override.decode(errors="replace")] if override else [])
            recipe["train"]["output_dir"] = "run"
            for one in runs_of(recipe):
                recipe_hash(one)
            yaml.safe_dump(recipe)
        except InputError as error:
            need_one_line(str(error))

    return target


def need_one_line(said: str) -> None:
    assert said.isprintable(), said
    assert 0 < len(said) < 1000, said


TARGETS: dict[str, Callable[[], Callable[[bytes], None]]] = {"pairs": pairs_target, "recipe": recipe_target}


def main(argv: list[str]) -> None:
    import atheris

    atheris_any: Any = atheris
    logging.disable(logging.CRITICAL)
    with atheris_any.instrument_imports(include=["gapo.pairs", "gapo.runs", "gapo.objectives", "yaml", "json", "csv"]):
        target = TARGETS[argv[1]]()
    atheris_any.Setup([argv[0], *argv[2:]], target)
    atheris_any.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
