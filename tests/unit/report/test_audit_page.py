"""The page of an audit: made from its files, whole, and safe whatever the data say."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from gapo import audit_pairs
from gapo.diagnostics.auditing import COLUMNS
from gapo.errors import InputError
from gapo.report import write_report
from gapo.report.audit_page import audit_page, write_audit_page
from gapo.report.audit_view import audit_view
from gapo.report.audit_words import cautions, key_numbers, length_sentence, result_sentence
from gapo.report.markup import VOID, tag
from gapo.runs.audit_folder import AuditFolder
from made_audits import HOSTILE, about_of, make_pairs, make_table


class Reader(HTMLParser):
    """Tags close in order; nothing loads and nothing listens."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.add(name)
        if name not in VOID:
            self.open.append(name)
        known = dict(attributes)
        assert not [key for key in known if key in ("src", "srcset") or key.startswith("on")], (name, known)
        self.ids += [known["id"] or ""] if "id" in known else []

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for key, value in attributes if key == "id"]

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    assert len(reader.ids) == len(set(reader.ids))
    return reader


@pytest.fixture
def quick(monkeypatch) -> None:
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))


@pytest.mark.parametrize("count", [60, 500])  # points, and a density
def test_hostile_text_stays_text(count):
    table = make_table(count)
    page = audit_page(table, about_of(table), make_pairs(table), name=HOSTILE)
    reader = read(page)
    assert "img" not in reader.names
    assert "alert(1)</script>" not in page
    assert "\u202e" not in page
    assert "\x00" not in page
    for key in ("gap", "margin", "compositions", "share", "lengths", "areas-flipped", "areas-disagree"):
        assert f'id="{key}-' in page, key  # every figure is drawn


@pytest.mark.parametrize("compositions", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_pairs_make_a_page(quick, count, compositions):
    table = make_table(count, marked=False, compositions=compositions)
    if compositions == 1:
        table = table.set_column(table.column_names.index("gap_spread"), "gap_spread", pa.nulls(count, pa.float64()))
    assert "found-flipped" not in read(audit_page(table, about_of(table))).ids


def test_a_folder_gets_its_page(quick, tmp_path):
    table = make_table(30)
    with pytest.raises(InputError, match="holds no audit"):
        write_audit_page(tmp_path)
    AuditFolder(tmp_path).finish(table, about_of(table))
    page = write_audit_page(tmp_path, make_pairs(table))
    assert page == tmp_path / "report.html"
    read(page.read_text())


def test_the_view_has_every_column_and_text():
    table = make_table(4)
    view = audit_view(table, about_of(table), make_pairs(table)[:3])
    assert {column.key for column in view.columns} == {*COLUMNS, "flipped", "agree", "subset"}
    assert [text is None for text in view.texts] == [False, False, False, True]
    assert (view.beta, view.gamma) == (2.5, 0.1)
    assert all(view.column(key) for key in view.colours)
    bare = audit_view(make_table(4, marked=False), about_of(table), None)
    assert {column.key for column in bare.columns} == set(COLUMNS)
    assert all(bare.column(key) for key in bare.colours)
    assert not bare.texts


def test_words_follow_the_numbers():
    table = make_table(200)
    about = about_of(table)
    found = about["summary"]
    assert result_sentence(about).startswith("200 pairs of ")
    assert f"Spearman {found['order_between_compositions']['mean']:.2g}" in result_sentence(about)
    assert {name for name, _, _ in key_numbers(about)} >= {"pairs scored", "self share", "finds flipped"}
    found["weight_and_length"], found["own_part_of_variance"] = -0.8, 0.95
    assert "follows length" in result_sentence(about)
    care = " ".join(cautions(about))
    assert "follows the responses' length" in care
    assert "own share of the direction" in care
    assert "blocks of 16 pairs" in care
    assert "short responses weigh less" in length_sentence(-0.8)
    assert "hardly follows" in length_sentence(0.1)
    about["plan"]["settings"]["compositions"] = 1
    assert "one composition" in cautions(about)[0]


def test_gapo_report_writes_the_page_of_an_audit_again(tmp_path):
    """With the texts while the pairs can be read, and without them when they are gone."""
    pairs = tmp_path / "pairs.jsonl"
    rows = [{"prompt": f"say {word}", "chosen": f"{word} again", "rejected": "no"} for word in "abcdefgh"]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    audit_pairs(str(pairs), "lab", batch_pairs=4, compositions=2, out=tmp_path / "audit")
    first = write_report(tmp_path / "audit")
    assert first == tmp_path / "audit" / "report.html"
    pairs.unlink()
    second = write_report(tmp_path / "audit", tmp_path / "other.html")
    assert second == tmp_path / "other.html"
    with_texts, without = (page.read_text(encoding="utf-8") for page in (first, second))
    assert len(with_texts) > len(without)
    assert "gapo audit" in without
