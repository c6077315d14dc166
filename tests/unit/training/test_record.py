"""What a run writes survives a kill, and a resumed run goes on where it was."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from gapo.training.record import PAIR_SCHEMA, RunRecord, read_steps


def rows(step, n=3):
    columns = {field.name: [None] * n for field in PAIR_SCHEMA}
    return {**columns, "step": [step] * n, "pair_id": [f"p{i}" for i in range(n)], "margin": [0.1 * step] * n}


def test_the_first_step_is_on_disk_at_once_and_the_rest_when_written(tmp_path):
    record = RunRecord(tmp_path)
    record.start()
    record.add({"step": 1, "loss": 1.0}, rows(1))
    assert pq.read_table(tmp_path / "pairs.parquet").num_rows == 3
    record.add({"step": 2, "loss": float("nan")}, rows(2))
    assert [line["loss"] for line in read_steps(tmp_path / "steps.jsonl")] == [1.0, None]
    record.write_pairs()
    assert pq.read_table(tmp_path / "pairs.parquet").num_rows == 6
    assert pq.read_table(tmp_path / "pairs.parquet").schema.names == PAIR_SCHEMA.names


def test_resuming_keeps_what_was_before_the_checkpoint_and_drops_what_came_after(tmp_path):
    record = RunRecord(tmp_path)
    record.start()
    for step in (1, 2, 3):
        record.add({"step": step}, rows(step))
    record.write_pairs()
    with open(tmp_path / "steps.jsonl", "a") as file:
        file.write('{"step": 4, "lo')  # killed while writing
    again = RunRecord(tmp_path)
    again.start(after_step=2)
    again.add({"step": 3}, rows(3))
    again.write_pairs()
    assert [line["step"] for line in read_steps(tmp_path / "steps.jsonl")] == [1, 2, 3]
    assert sorted(pq.read_table(tmp_path / "pairs.parquet")["step"].to_pylist()) == [1] * 3 + [2] * 3 + [3] * 3


def test_a_new_run_starts_empty_and_sets_the_old_one_aside(tmp_path):
    record = RunRecord(tmp_path)
    record.start()
    record.add({"step": 1}, rows(1))
    RunRecord(tmp_path).start()
    assert read_steps(tmp_path / "steps.jsonl") == []
    assert not (tmp_path / "pairs.parquet").exists()
    assert [line["step"] for line in read_steps(tmp_path / "steps.1.jsonl")] == [1]
    assert pq.read_table(tmp_path / "pairs.1.parquet").num_rows == 3


def test_lines_are_plain_json(tmp_path):
    record = RunRecord(tmp_path)
    record.start()
    record.add({"step": 1, "loss": float("inf"), "epoch": 0.5}, rows(1))
    assert json.loads((tmp_path / "steps.jsonl").read_text()) == {"step": 1, "loss": None, "epoch": 0.5}


def test_a_file_has_the_same_bytes_however_often_it_was_written(tmp_path, monkeypatch):
    """Groups are cut by count: when a run happened to write does not show."""
    monkeypatch.setattr("gapo.training.record.ROWS_A_GROUP", 4)
    monkeypatch.setattr("gapo.training.record.WRITE_EVERY", 3600.0)
    often, once, resumed = (RunRecord(tmp_path / name) for name in ("often", "once", "resumed"))
    for record in (often, once, resumed):
        record.start()
        for step in range(1, 7):
            record.add({"step": step}, rows(step))
            if record is often or (record is resumed and step == 4):
                record.write_pairs()
        record.write_pairs()
    resumed.start(after_step=3)
    for step in (4, 5, 6):
        resumed.add({"step": step}, rows(step))
    resumed.write_pairs()
    assert often.pairs_path.read_bytes() == once.pairs_path.read_bytes() == resumed.pairs_path.read_bytes()
    file = pq.ParquetFile(once.pairs_path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 4, 4, 4, 2]
    assert file.read()["step"].to_pylist() == [step for step in range(1, 7) for _ in range(3)]


def test_rows_that_are_on_disk_are_not_in_memory(tmp_path):
    record = RunRecord(tmp_path)
    record.start()
    held = []
    for step in range(1, 6):
        record.add({"step": step}, rows(step, 2_000))
        record.write_pairs()
        held.append(pa.total_allocated_bytes())
    assert held[-1] - held[0] < 1_000  # the rows of four steps are a megabyte


def test_columns_of_later_versions_are_null_in_a_resumed_record(tmp_path):
    old = pa.table({"step": [1, 1], "pair_id": ["a", "b"], "margin": [0.5, 0.25]})
    pq.write_table(old, tmp_path / "pairs.parquet")
    RunRecord(tmp_path).start(after_step=1)
    found = pq.read_table(tmp_path / "pairs.parquet")
    assert found.schema.equals(PAIR_SCHEMA)
    assert found["margin"].to_pylist() == [0.5, 0.25]
    assert found["gap"].null_count == 2
