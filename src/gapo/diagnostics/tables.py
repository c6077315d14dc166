"""Tables of pairs, from a run's record or from a probe, as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from gapo.diagnostics.intervals import Numbers
from gapo.errors import InputError
from gapo.storage import whole_file

RECORD, PROBE, AUDIT = "pairs.parquet", "probe.parquet", "audit.parquet"


def read_table(path: Path) -> pa.Table:
    """The pairs of a folder, as a run recorded, `write_probe` left or an audit scored them; or of a file."""
    file = next((path / name for name in (RECORD, PROBE, AUDIT) if (path / name).is_file()), path)
    try:
        return _reader(file)(file)
    except IsADirectoryError:
        raise InputError(
            f"{path} has neither {RECORD} nor {PROBE} nor {AUDIT}; give a run folder or a file of pairs"
        ) from None
    except FileNotFoundError:
        raise InputError(f"{file} does not exist; give a run folder or a file of pairs") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file} is not a readable table ({reason}); give Parquet, CSV or JSONL") from None


def write_probe(table: pa.Table, folder: Path) -> Path:
    """Keep a probe where `read_table` and `data.select` find it."""
    with whole_file(folder / PROBE) as part:
        pq.write_table(table, part, compression="zstd")
    return folder / PROBE


def _reader(file: Path) -> Callable[[Path], pa.Table]:
    kind = file.name.removesuffix(".gz").rpartition(".")[2]
    return {"csv": _read_csv, "jsonl": pa.json.read_json}.get(kind, _read_parquet)


def _read_parquet(file: Path) -> pa.Table:
    with open(file, "rb") as opened:  # a folder is an error, not a data set of many files
        return pq.read_table(opened)


def _read_csv(file: Path) -> pa.Table:
    options = pa.csv.ConvertOptions(column_types={"pair_id": pa.string()})  # an id of digits alone is no number
    return pa.csv.read_csv(file, convert_options=options)


def column(table: pa.Table, name: str) -> Numbers:
    """A column as floats; NaN for null, and for a column that is not there."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    values = table[name]
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    return np.asarray(pc.cast(values, pa.float64()).to_numpy(), dtype=np.float64)


def known(table: pa.Table, *names: str) -> pa.Table:
    """The rows that have a finite value in each of these columns."""
    finite = np.ones(table.num_rows, dtype=np.bool_)
    for name in names:
        finite &= np.isfinite(column(table, name))
    return table.filter(pa.array(finite))


def first_seen(table: pa.Table) -> pa.Table:
    """Each pair once, in the order of the record: as it was when the run first met it."""
    _, first = np.unique(np.asarray(table["pair_id"].to_pylist(), dtype=str), return_index=True)
    return table.take(pa.array(np.sort(first)))


def stretches(table: pa.Table, count: int) -> Iterator[tuple[float, pa.Table]]:
    """The record in `count` parts with as many steps each, and the part's mean epoch."""
    step = column(table, "step")
    for part in np.array_split(np.unique(step), count):
        if len(part):
            rows = table.filter(pa.array((step >= part[0]) & (step <= part[-1])))
            yield float(column(rows, "epoch").mean()), rows


def marks_of(table: pa.Table, marks: Mapping[str, bool]) -> Numbers:
    """1 or 0 for each row by its pair's mark, NaN for a pair without one."""
    return np.array([float(marks[name]) if name in marks else np.nan for name in table["pair_id"].to_pylist()])
