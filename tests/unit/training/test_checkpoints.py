"""A checkpoint is whole or it is skipped; older ones go only after a newer one is whole."""

import pytest

from gapo.training.checkpoints import MANIFEST, newest_whole, rotate, seal, set_aside, whats_missing


def checkpoint(folder, step, *, sealed=True):
    path = folder / f"checkpoint-{step}"
    (path / "inner").mkdir(parents=True)
    for name in ("trainer_state.json", "scheduler.pt", "gapo.json", "model.safetensors", "inner/shard.bin"):
        (path / name).write_bytes(f"{name} of step {step}".encode())
    if sealed:
        seal(path)
    return path


def steps(folder):
    return sorted(int(path.name.rpartition("-")[2]) for path in folder.iterdir())


def test_a_sealed_checkpoint_is_whole_and_the_newest_one_is_taken_by_number(tmp_path):
    for step in (2, 10, 9):
        assert whats_missing(checkpoint(tmp_path, step)) is None
    assert newest_whole(tmp_path) == tmp_path / "checkpoint-10"
    assert newest_whole(tmp_path / "nowhere") is None


def shorten(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: (path / MANIFEST).unlink(), "its list files.json is missing or cut short"),
        (lambda path: shorten(path / MANIFEST) or shorten(path / MANIFEST), "its list files.json is missing"),
        (lambda path: (path / "scheduler.pt").unlink(), "scheduler.pt is missing"),
        (lambda path: shorten(path / "inner" / "shard.bin"), "inner/shard.bin has 24 of 25 bytes"),
        (lambda path: (path / "gapo.json").write_bytes(b"gapo.json of step 3"), "gapo.json has not the bytes"),
        (lambda path: (path / "scheduler.pt").unlink() or seal(path), "it was saved without scheduler.pt"),
    ],
)
def test_what_is_not_whole_is_skipped_and_said(tmp_path, caplog, damage, words):
    checkpoint(tmp_path, 1)
    damage(checkpoint(tmp_path, 2))
    assert newest_whole(tmp_path) == tmp_path / "checkpoint-1"
    assert [record.message.count("checkpoint-2 is not whole and is skipped") for record in caplog.records] == [1]
    assert words in caplog.text


def test_rotation_keeps_the_newest_the_best_and_as_many_as_asked_for(tmp_path):
    made = [checkpoint(tmp_path, step) for step in (2, 4, 6, 8)]
    rotate(tmp_path, made[-1], None, None)
    assert steps(tmp_path) == [2, 4, 6, 8]
    rotate(tmp_path, made[-1], 3, made[0])
    assert steps(tmp_path) == [2, 6, 8]
    rotate(tmp_path, made[-1], 1, made[0])
    assert steps(tmp_path) == [2, 8]
    rotate(tmp_path, made[-1], 1, None)
    assert steps(tmp_path) == [8]


def test_half_written_checkpoints_do_not_crowd_out_whole_ones(tmp_path):
    checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 4, sealed=False)
    rotate(tmp_path, checkpoint(tmp_path, 6), 2, None)
    assert steps(tmp_path) == [2, 6]


def test_checkpoints_of_an_earlier_run_are_set_aside(tmp_path):
    set_aside(tmp_path / "checkpoints")
    for _ in range(2):
        checkpoint(tmp_path / "checkpoints", 2)
        set_aside(tmp_path / "checkpoints")
    assert steps(tmp_path / "checkpoints.1") == steps(tmp_path / "checkpoints.2") == [2]
    assert not (tmp_path / "checkpoints").exists()
