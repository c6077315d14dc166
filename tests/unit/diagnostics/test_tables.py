"""Tables of pairs from folders and files, and what is asked of them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapo.diagnostics.signals import SUSPICION, finders, finders_over_training, signal
from gapo.diagnostics.tables import column, first_seen, known, marks_of, read_table, stretches, write_probe
from gapo.errors import InputError
from gapo.training.record import PAIR_SCHEMA


@pytest.fixture
def record():
    """Two epochs of four pairs, two a step; flipped pairs lose weight, and more so later."""
    weight = [1.0, 0.9, 0.8, 0.7, 1.0, 0.5, 0.8, 0.3]
    n = len(weight)
    values = {
        "step": [1, 1, 2, 2, 3, 3, 4, 4],
        "epoch": [0.5, 0.5, 1, 1, 1.5, 1.5, 2, 2],
        "pair_id": ["a", "b", "c", "d"] * 2,
        "weight": weight,
        "flipped": [False, True, None, True] * 2,
        "chosen_tokens": [2, 4, 5, 10] * 2,
        "rejected_tokens": [4, 4, 2, 10] * 2,
        "margin": np.arange(n, dtype=float),
        "gap_self": [1.0, 1, 1, 1] * 2,
        "gap_others": [1.0, -2, 3, 0] * 2,
    }
    filled = {name: values.get(name, [None] * n) for name in PAIR_SCHEMA.names}
    return pa.table(filled, schema=PAIR_SCHEMA)


def test_a_folder_is_its_record_or_else_its_probe(tmp_path, record):
    write_probe(record.slice(0, 2), tmp_path)
    assert read_table(tmp_path) == record.slice(0, 2) == read_table(tmp_path / "probe.parquet")
    pq.write_table(record, tmp_path / "pairs.parquet")
    assert read_table(tmp_path) == record


def test_csv_and_json_lines_keep_ids_as_text(tmp_path):
    (tmp_path / "scores.csv").write_text("pair_id,gap\n0012,1.5\n13,2\n")
    (tmp_path / "scores.jsonl").write_text('{"pair_id": "0012", "gap": 1.5}\n{"pair_id": "13", "gap": 2.0}\n')
    for name in ("scores.csv", "scores.jsonl"):
        table = read_table(tmp_path / name)
        assert table["pair_id"].to_pylist() == ["0012", "13"]
        assert column(table, "gap").tolist() == [1.5, 2]


def test_what_is_no_table_is_said_plainly(tmp_path):
    with pytest.raises(InputError, match=r"has neither pairs\.parquet nor probe\.parquet nor audit\.parquet"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_table(tmp_path / "nothing.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="is not a readable table"):
        read_table(tmp_path / "broken.parquet")


def test_columns_are_floats_with_nan_for_what_is_not_there(record):
    assert column(record, "flipped")[:2].tolist() == [0, 1]
    assert np.isnan(column(record, "flipped")[2])
    assert np.isnan(column(record, "nothing")).all()
    assert known(record, "flipped", "weight").num_rows == 6


def test_first_seen_keeps_the_earliest_row_of_each_pair(record):
    backwards = record.take(list(range(7, -1, -1)))
    assert first_seen(record)["weight"].to_pylist() == [1.0, 0.9, 0.8, 0.7]
    assert first_seen(backwards)["weight"].to_pylist() == [0.3, 0.8, 0.5, 1.0]


def test_stretches_have_as_many_steps_each(record):
    parts = list(stretches(record, 2))
    assert [epoch for epoch, _ in parts] == [0.75, 1.75]
    assert [part["step"].to_pylist() for _, part in parts] == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert len(list(stretches(record, 9))) == 4


def test_signals_are_columns_or_made_of_them(record):
    assert signal(record, "length_term")[:4] == pytest.approx([3 / 4, 1 / 2, 7 / 10, 1 / 5])
    assert signal(record, "length_difference")[:4].tolist() == [-2, 0, 3, 0]
    assert signal(record, "self_share")[[0, 2, 3]] == pytest.approx([1 / 2, 1 / 4, 1])
    assert np.isnan(signal(record, "self_share")[1])
    with pytest.raises(InputError, match="unknown signal 'wieght'; did you mean 'weight'"):
        signal(record, "wieght")


def test_finders_put_the_suspicious_end_on_top_and_skip_what_was_not_measured(record):
    found = {one.signal: one for one in finders(record)}
    assert set(found) == {"weight", "gap_self", "gap_others", "margin", "length_term"}
    clean, flipped = [1.0, 1.0], [0.9, 0.7, 0.5, 0.3]
    assert found["weight"].area.value == np.mean([[a < b for b in clean] for a in flipped]) == 1
    assert found["gap_self"].area.value == 0.5
    assert found["gap_others"].area.value == 1  # below the others'
    assert (found["weight"].pairs, found["weight"].marked) == (6, 4)
    assert set(SUSPICION.values()) == {-1, 1}


def test_finders_take_other_marks_and_clusters(record):
    marks = marks_of(record, {"a": True, "b": False, "c": False})
    assert np.isnan(marks[[3, 7]]).all()
    (one,) = finders(record, marks, ["weight"], clusters=np.array(record["pair_id"].to_pylist()))
    assert (one.pairs, one.marked) == (6, 2)
    assert one.area.value == 0  # the marked pair has the most weight


def test_finders_over_training_are_those_of_each_stretch(record):
    found = finders_over_training(record, 2, ["weight"])
    assert [epoch for epoch, _ in found] == [0.75, 1.75]
    assert [one.area.value for _, (one,) in found] == [1, 1]
    assert [(one.pairs, one.marked) for _, (one,) in found] == [(3, 2), (3, 2)]
