"""df_gamed.csv: read to the number, refused with what is wrong, and official only if it is."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from gapo.errors import InputError
from gapo.evaluate import length_data as module
from gapo.evaluate.length_data import length_data, read_gamed

HEAD = "model,preference,index,std_delta_len,instruction_difficulty\n"
ROWS = HEAD + "a,0.25,7,-1.5,0.125\na,0.5,3,2.0,-0.5\nb,1.0,7.0,0.75,9.0\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="df_gamed.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_columns_come_as_numbers_and_the_first_row_of_an_instruction_tells_its_difficulty(written):
    difficulty, gamed = read_gamed(written(ROWS))
    assert difficulty == {"7": 0.125, "3": -0.5}
    np.testing.assert_array_equal(gamed.preference, [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(gamed.length, [-1.5, 2.0, 0.75])
    np.testing.assert_array_equal(gamed.difficulty, [0.125, -0.5, 9.0])
    assert gamed.official is False
    assert read_gamed(written(ROWS), official=True)[1].official is True


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no column index"),
        (HEAD, "has no column index"),  # a head and nothing below
        ("index,preference,std_delta_len\n1,1,1\n", "has no column instruction_difficulty"),
        (HEAD + "a,good,7,-1.5,0.1\n", "a cell that is no number .*good"),
        (HEAD + "a,0.5,7\n", "a cell that is no number"),
        (HEAD + "a,0.5,7,inf,0.1\n", "no finite number"),
        (HEAD + "a,0.5,7,0.0,0.1\na,nan,7,0.0,0.1\n", "no finite number"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(written, text, says):
    with pytest.raises(InputError, match=says):
        read_gamed(written(text))


def test_rows_of_a_folder_are_official_if_they_are_the_same_bytes(written, tmp_path, monkeypatch):
    written(ROWS)
    assert not length_data(tmp_path)[1].official
    monkeypatch.setattr(module, "OFFICIAL_SHA256", hashlib.sha256(ROWS.encode()).hexdigest())
    assert length_data(tmp_path)[1].official


def test_rows_from_the_hub_are_official(written, tmp_path, monkeypatch):
    path = written(ROWS, "fetched.csv")
    monkeypatch.setattr(module, "official_file", lambda source, folder: path)
    for folder in (None, tmp_path):
        difficulty, gamed = length_data(folder)
        assert gamed.official
        assert difficulty["3"] == -0.5


def test_a_users_own_file_comes_before_the_hubs(written, tmp_path, monkeypatch):
    written(ROWS.replace("0.125", "4.0"))
    monkeypatch.setattr(module, "official_file", lambda *_: pytest.fail("there is one in the folder"))
    assert length_data(tmp_path)[0]["7"] == 4.0
