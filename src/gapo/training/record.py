"""What a run leaves behind as it goes: one line a step, one row a pair and step.

`steps.jsonl` grows line by line. `pairs.parquet` is written anew, whole, at intervals that keep the cost of writing
under a few per cent, so that a kill at any moment leaves a readable file. Rows that are on disk are not in memory: they
go from the old file to the new one a group at a time, so a long run takes no more memory than a short one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapo.storage import add_line, on_disk, whole_file

PAIR_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("epoch", pa.float64()),
        ("pair_id", pa.string()),
        ("margin", pa.float64()),
        ("anchor_margin", pa.float64()),
        ("gap", pa.float64()),
        ("weight", pa.float64()),
        ("loss", pa.float64()),
        ("chosen_tokens", pa.int64()),
        ("rejected_tokens", pa.int64()),
        ("chosen_logp", pa.float64()),
        ("rejected_logp", pa.float64()),
        ("flipped", pa.bool_()),
        ("grad_norm", pa.float64()),
        ("alignment", pa.float64()),
        ("gap_self", pa.float64()),
        ("gap_others", pa.float64()),
        ("consensus", pa.float64()),
        ("wrong", pa.float64()),
    ]
)
WRITE_EVERY = 5.0  # seconds
ROWS_A_GROUP = 2**13  # a few MB while it is written; by count and not by time, so that equal runs have equal files


class RunRecord:
    """The two files of a run directory."""

    def __init__(self, folder: Path) -> None:
        self.steps_path = folder / "steps.jsonl"
        self.pairs_path = folder / "pairs.parquet"
        self._unwritten: list[pa.Table] = []
        self._next_write = 0.0

    def start(self, after_step: int = 0) -> None:
        """Begin, or go on after this step: later lines of an interrupted run are dropped, earlier ones kept."""
        self._unwritten = []
        if after_step:
            self._write(table.filter(pc.less_equal(table["step"], after_step)) for table in self._written())
            kept = [line for line in read_steps(self.steps_path) if line["step"] <= after_step]
        else:
            kept = []
            _set_aside(self.steps_path)
            _set_aside(self.pairs_path)
        with whole_file(self.steps_path) as part:
            part.write_text("".join(f"{json.dumps(line)}\n" for line in kept))

    def add(self, line: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> None:
        """One step: its line and its pairs' rows (a column a key)."""
        add_line(self.steps_path, json.dumps({key: _plain(value) for key, value in line.items()}))
        self._unwritten.append(pa.table(dict(rows), schema=PAIR_SCHEMA))
        if time.monotonic() >= self._next_write:
            self.write_pairs()

    def write_down(self) -> None:
        """Everything so far, on the disk: what a checkpoint goes on from."""
        self.write_pairs()
        on_disk(self.steps_path)

    def write_pairs(self) -> None:
        """Write every row so far."""
        if not self._unwritten:
            return
        start = time.monotonic()
        self._write(chain(self._written(), [pa.concat_tables(self._unwritten)]))
        self._unwritten = []
        took = time.monotonic() - start
        self._next_write = time.monotonic() + max(WRITE_EVERY, 30 * took)

    def _written(self) -> Iterator[pa.Table]:
        """The rows on disk, some at a time; columns of later versions are null."""
        if self.pairs_path.is_file():
            with pq.ParquetFile(self.pairs_path) as file:
                for batch in file.iter_batches(ROWS_A_GROUP):
                    read = [PAIR_SCHEMA.empty_table(), pa.Table.from_batches([batch])]
                    yield pa.concat_tables(read, promote_options="default").select(PAIR_SCHEMA.names)

    def _write(self, tables: Iterable[pa.Table]) -> None:
        with whole_file(self.pairs_path) as part, pq.ParquetWriter(part, PAIR_SCHEMA, compression="zstd") as writer:
            for group in _in_groups(tables):
                writer.write_table(group.combine_chunks(), row_group_size=ROWS_A_GROUP)


def _in_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    rest = PAIR_SCHEMA.empty_table()
    for table in tables:
        rest = pa.concat_tables([rest, table])
        while len(rest) >= ROWS_A_GROUP:
            yield rest[:ROWS_A_GROUP]
            rest = rest[ROWS_A_GROUP:]
    if len(rest):
        yield rest


def _set_aside(path: Path) -> None:
    """An earlier run's file becomes `name.1.suffix` (or the next free number): a new run loses nothing."""
    if path.is_file() and path.stat().st_size:
        number = 1
        while (aside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
            number += 1
        path.rename(aside)


def read_steps(path: Path) -> list[dict[str, Any]]:
    """The lines of `steps.jsonl`; one cut short by a kill is left out."""
    lines = []
    for text in path.read_text().splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
