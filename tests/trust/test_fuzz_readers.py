"""The readers of data files and of recipes on what nobody wrote: a result, or one line that says what is wrong."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from corpus import PAIRS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.runs.recipe import read_recipe, recipe_hash, runs_of

BOUNDED = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,  # the same examples on every machine
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(PAIRS), file)
    return file.getvalue()


WHOLE = {
    "jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in PAIRS),
    "json": json.dumps({"train": PAIRS, "test": PAIRS[:1]}).encode(),
    "csv": b"prompt,chosen,rejected\n" + b"".join(",".join(row.values()).encode() + b"\n" for row in PAIRS),
    "parquet": _parquet(),
}
WHOLE |= {f"{kind}.gz": gzip.compress(WHOLE[kind], mtime=0) for kind in ("jsonl", "json", "csv")}
RECIPE = {
    "model": {"name": "lab", "lora": {"r": 4}, "dtype": "float32"},
    "data": {"train": "lab", "limit": 8, "select": {"from": "a", "share": 0.5}},
    "noise": {"kind": "random", "rate": 0.2, "seed": 1},
    "objective": {"name": ["dpo", "gapo"], "gapo": {"beta": 2.5}},
    "anchor": {"radius": 0.05, "batches": 8, "scope": "full"},
    "train": {"learning_rate": 1e-5, "max_steps": 3, "output_dir": "run", "warmup_ratio": 0.1},
    "methods": {"dpo": {"learning_rate": 1e-6}},
    "about": {"gpu": "cpu", "hours": {"gapo": 1}},
}
PIECES = [
    *(b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b'"', b"\\", b"\\ud800", b"\n", b"\r"),
    *(b"{", b"}", b"[", b"]", b",", b"NaN", b"1e999", b"&a", b"*a", b"!!int", b"<<: ", b"-" * 9),
]
places = st.floats(0, 1, allow_nan=False)
changes = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "flip", "repeat", "swap"]), places, places, st.sampled_from(PIECES)),
    min_size=1,
    max_size=6,
)


def mutated(whole: bytes, steps: list[tuple[str, float, float, bytes]]) -> bytes:
    """Bytes put in, taken out, turned round, written twice or exchanged."""
    for kind, first, second, piece in steps:
        low, high = sorted(int(place * len(whole)) for place in (first, second))
        if kind == "insert":
            whole = whole[:low] + piece + whole[low:]
        elif kind == "delete":
            whole = whole[:low] + whole[min(high, low + 40) :]
        elif kind == "flip" and whole:
            low = min(low, len(whole) - 1)
            whole = whole[:low] + bytes([whole[low] ^ (1 << high % 8)]) + whole[low + 1 :]
        elif kind == "repeat":
            whole = whole[:high] + whole[low : min(high, low + 200)] + whole[high:]
        else:
            whole = whole[high:] + whole[low:high] + whole[:low]
    return whole


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "lab", "auto"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def outcome(call: Callable[[], object]) -> object:
    """What came out; None where the input was refused in one printable line."""
    try:
        return call()
    except InputError as error:
        said = str(error)
        assert said
        assert said.isprintable(), said
        assert len(said) < 1000, said
        return None


def read(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    found = outcome(lambda: load_pairs(path, cache=False))
    if found is not None:
        assert len(found)
        for pair in found:
            assert pair.chosen.strip()
            assert pair.rejected.strip()
            (pair.prompt_text + pair.chosen + pair.rejected + pair.id).encode()


@pytest.mark.parametrize("kind", WHOLE)
@BOUNDED
@given(changes=changes)
def test_a_changed_file_is_read_or_refused(kind, changes, tmp_path):
    read(tmp_path / f"f.{kind}", mutated(WHOLE[kind], changes))


@BOUNDED
@given(content=st.binary(max_size=300), kind=st.sampled_from(sorted(WHOLE)))
def test_any_bytes_are_read_or_refused(content, kind, tmp_path):
    read(tmp_path / f"f.{kind}", content)


@BOUNDED
@given(changes=changes, kind=st.sampled_from(["jsonl", "json", "csv"]))
def test_changed_text_that_is_packed_well_is_read_or_refused(changes, kind, tmp_path):
    read(tmp_path / f"f.{kind}.gz", gzip.compress(mutated(WHOLE[kind], changes), 1))


@BOUNDED
@given(row=st.dictionaries(st.sampled_from(["prompt", "chosen", "rejected", "id", "flipped", "subset"]), values))
def test_values_of_any_type_are_read_or_refused(row, tmp_path):
    read(tmp_path / "f.jsonl", json.dumps({**PAIRS[0], **row}).encode())
    read(tmp_path / "f.json", json.dumps([PAIRS[1], row]).encode())


def use(path: Path, content: bytes, overrides: list[str] | None = None) -> None:
    """A recipe that is taken must stand up to what is done with every recipe first."""
    path.write_bytes(content)
    found = outcome(lambda: read_recipe(str(path), overrides or []))
    if found is not None:
        outcome(
            lambda: [recipe_hash(one) for one in runs_of({**found, "train": {**found["train"], "output_dir": "r"}})]
        )
        yaml.safe_dump(found)


@BOUNDED
@given(changes=changes)
def test_a_changed_recipe_is_taken_or_refused(changes, tmp_path):
    use(tmp_path / "f.yaml", mutated(yaml.safe_dump(RECIPE, sort_keys=False).encode(), changes))


@BOUNDED
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_text_is_taken_for_a_recipe_or_refused(content, tmp_path):
    use(tmp_path / "f.yaml", content)


KEYS = [(section, key) for section, content in RECIPE.items() for key in content]


@BOUNDED
@given(place=st.sampled_from(KEYS), value=values)
def test_a_value_of_any_type_is_taken_or_refused(place, value, tmp_path):
    section, key = place
    changed = {**RECIPE, section: {**RECIPE[section], key: value}}
    use(tmp_path / "f.yaml", yaml.safe_dump(changed, sort_keys=False, allow_unicode=True).encode("utf-8", "replace"))


@BOUNDED
@given(place=st.sampled_from(KEYS), text=st.text(max_size=30))
def test_an_override_of_any_text_is_taken_or_refused(place, text, tmp_path):
    use(tmp_path / "f.yaml", yaml.safe_dump(RECIPE).encode(), [f"{'.'.join(place)}={text}"])
