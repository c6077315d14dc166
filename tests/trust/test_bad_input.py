"""Bad input in quantity: one clear sentence, exit code 2, and nothing of what was there is touched."""

from __future__ import annotations

import pytest
from bad_files import FILES
from bad_folders import FOLDERS
from bad_models import MODELS
from bad_recipes import RECIPES
from bad_rows import ROWS
from corpus import Case, check_sentence, content_of, told

CASES = [*ROWS, *FILES, *RECIPES, *MODELS, *FOLDERS]


def test_there_are_two_hundred_different_ones():
    assert len(CASES) == len({case.name for case in CASES}) >= 200


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_one_sentence_and_changes_nothing(case: Case, place, monkeypatch, capsys):
    case.write(place)
    before = content_of(place)
    code, words = told(case.command, monkeypatch, capsys)
    check_sentence(code, words, case.says, case.where)
    assert content_of(place) == before, "files were changed or left behind"
