"""The page of a study as HTML: the words and numbers of its README, figures inside, nothing loaded."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.report import write_report
from gapo.report.study_html import words_of

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def noise(tmp_path) -> Path:
    """A copy of a committed study under another name."""
    folder = tmp_path / "copied"
    shutil.copytree(RESULTS / "noise", folder)
    (folder / "report.html").unlink(missing_ok=True)
    return folder


def text_of(page: Path) -> str:
    import html

    body = re.sub(r"<style>.*?</style>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def test_a_study_has_its_question_findings_claims_figures_tables_and_command(noise):
    page = write_report(noise)
    about = json.loads((noise / "about.json").read_text())
    text, source = text_of(page), page.read_text(encoding="utf-8")
    assert page == noise / "report.html"
    assert "How does accuracy on clean test pairs fall" in text
    assert all(words_of(found) in text for found in about["found"])
    assert "disagrees with the paper" in text
    assert about["command"] in text
    assert source.count("<svg") == 1
    assert "currentColor" in source  # drawn in the page's ink, light or dark
    assert not re.search(r"https?://|<script|<link|<img|@import", source)
    table = [line for line in (noise / "README.md").read_text().splitlines() if line.startswith("| at random | 20 %")]
    assert all(words_of(cell.strip()) in text for cell in table[0].strip("| ").split("|"))


def test_a_study_can_be_written_elsewhere_and_is_not_compared(noise, tmp_path, make_run):
    assert write_report(noise, tmp_path / "page.html").is_file()
    with pytest.raises(InputError, match="holds a study, and only runs are compared"):
        write_report([make_run(steps=2), noise])


@pytest.mark.parametrize("content", ["{", "[]", '{"command": "gapo study nothing"}', "{}"])
def test_a_study_that_cannot_be_read_is_one_sentence(noise, content):
    (noise / "about.json").write_text(content)
    with pytest.raises(InputError) as refusal:
        write_report(noise)
    assert "\n" not in str(refusal.value)


def test_an_audit_folder_is_known_for_what_it_is(tmp_path):
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(InputError, match="holds no audit; give the folder of one"):
        write_report(tmp_path)


def test_hostile_words_in_a_study_stay_text(noise):
    rows = (noise / "rows.jsonl").read_text().replace('"random"', '"<script>x"', 1)
    (noise / "rows.jsonl").write_text(rows)
    about = json.loads((noise / "about.json").read_text())
    (noise / "about.json").write_text(json.dumps({**about, "version": "<i>1", "command": f"{about['command']} <u>"}))
    source = write_report(noise).read_text()
    assert not re.search(r"<script|<i>|<u>", source)
    assert "&lt;u&gt;" in source


def test_marks_of_markdown_are_taken_off():
    assert words_of("**a** [tuning](../tuning/README.md) `b`") == "a tuning b"
