"""Every page: nothing is loaded, only a script named by its hash runs, and no text can become anything but text."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gapo.report import read_run
from gapo.report.audit_page import audit_page
from gapo.report.comparison_page import comparison_page
from gapo.report.explorer_assets import SCRIPTS, script
from gapo.report.live_page import LIVE_STYLE, SCRIPT, shell, shell_policy
from gapo.report.markup import tag, visible
from gapo.report.run_page import run_page
from gapo.report.study_files import read_study
from gapo.report.study_html import study_html
from gapo.report.style import STYLE
from gapo.studies.catalogue import BY_NAME
from made_audits import about_of, make_pairs, make_table
from made_runs import make_run
from pages_read import PageRead, directives, hashes, listening

RESULTS = Path(__file__).parents[2] / "results"
BENIGN = "plain words"
FRAGMENTS = [
    "<script>alert(1)</script>", "</script>", "</style>", "</title>", "</textarea>", "<!--", "-->", "]]>", "<![CDATA[",
    "<img src=x onerror=alert(1)>", '"', "'", "`", "\" onmouseover='x'", "javascript:alert(1)", "&lt;", "&#60;",
    "<svg/onload=x>", "\u202e", "\x00", "\ud800", "\ufffe", "\u2028", "{{7*7}}", "${x}", "<a href=//x>",
    '<div class="explorer">', "\n", "=", "/",
]  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), min_size=1, max_size=8).map("".join)


def planted(value: Any, text: str) -> Any:
    """The same shape with this text for every text in it, and as a name beside the names that are there."""
    if isinstance(value, dict):
        return {key: planted(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [planted(each, text) for each in value]
    return text if isinstance(value, str) else value


def run_with(text: str, root: Path, name: str) -> Path:
    """A run whose recipe, results, environment, pairs and texts say this wherever they say anything."""
    folder = make_run(root, name, steps=4, per_step=2)
    for file, read, write in (("recipe.yaml", yaml.safe_load, yaml.safe_dump), ("evals.json", json.loads, json.dumps),
                              ("environment.json", json.loads, json.dumps)):  # fmt: skip
        content = planted(read((folder / file).read_text()), text)
        if file == "evals.json":
            content |= {"warnings": [text], "measures": {**content["measures"], text: 0.5}}
        (folder / file).write_text(write(content))
    plain = text.encode("utf-8", "replace").decode()  # parquet holds no lone surrogates
    table = pq.read_table(folder / "pairs.parquet")
    ids = [plain, *table["pair_id"].to_pylist()[1:]]
    pq.write_table(table.set_column(2, "pair_id", pa.array(ids)), folder / "pairs.parquet")
    row = {"pair_id": plain, "prompt": plain, "chosen": plain, "rejected": plain, "subset": plain, "held_out": False}
    pq.write_table(pa.Table.from_pylist([row]), folder / "texts.parquet")
    return folder


def of_run(text: str) -> str:
    with tempfile.TemporaryDirectory() as root:
        return run_page(read_run(run_with(text, Path(root), "run")))


def of_comparison(text: str) -> str:
    with tempfile.TemporaryDirectory() as root:
        runs = [replace(read_run(run_with(text, Path(root), name))) for name in ("one", "two")]
        return comparison_page(runs, Path(root) / "report.html")


def of_audit(text: str) -> str:
    table = make_table(12)
    plain = text.encode("utf-8", "replace").decode()
    table = table.set_column(table.column_names.index("subset"), "subset", pa.array([plain] * table.num_rows))
    about = about_of(table)
    about |= {key: planted(about[key], text) for key in ("data", "model", "adapter", "left_out", "environment")}
    return audit_page(table, about, make_pairs(table), name=text)


@cache
def noise_study() -> Any:
    return read_study(RESULTS / "noise")


def of_study(text: str) -> str:
    rows, about = noise_study()
    study = replace(BY_NAME["noise"], title=text, question=text)
    return study_html(study, study.tables(rows), rows, {**about, "command": text, "version": text})


PAGES: dict[str, Callable[[str], str]] = {
    "run": of_run, "comparison": of_comparison, "audit": of_audit, "study": of_study,
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Without drawings: theirs are escaped by matplotlib, and tests of each page draw them all."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("elements", "study_html"):
            patch.setattr(f"gapo.report.{module}.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))
        yield


@cache
def benign(kind: str) -> PageRead:
    return PageRead(PAGES[kind](BENIGN))


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_allows_nothing_but_its_own_style_and_script(kind):
    page = benign(kind)
    [policy] = page.policies
    rules = directives(policy)
    assert set(page.before_policy) <= {"html", "head", "meta"}  # a policy holds only for what comes after it
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == ["'none'"]
    assert rules.pop("style-src") == hashes(page.styles)
    assert rules.pop("script-src", []) == hashes(page.scripts)
    assert not rules
    assert len(page.styles) == 1
    assert page.scripts == ([script()] if kind in ("run", "audit") else [])
    assert not listening(page.kinds)
    assert all(link.startswith(("#", "./")) for link in page.links)


@pytest.mark.parametrize("kind", PAGES)
@given(text=texts)
@example("".join(FRAGMENTS))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_text_becomes_an_element_an_attribute_a_link_or_a_script(kind, text):
    page, plain = PageRead(PAGES[kind](text)), benign(kind)
    assert set(page.kinds) <= set(plain.kinds)
    assert (page.scripts, page.styles, page.policies) == (plain.scripts, plain.styles, plain.policies)
    assert not listening(page.kinds)
    assert all(link.startswith(("#", "./")) for link in page.links)
    assert not re.search("[\x00-\x08\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page.words)


@pytest.mark.parametrize("kind", PAGES)
def test_the_text_is_still_there_to_be_read(kind):
    text = 'a "quoted" <b>tag</b> & an \x07 act'
    assert visible(text) in PageRead(PAGES[kind](text)).words


@given(text=texts)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_the_live_page_takes_the_name_of_a_run_as_text(text):
    page, plain = PageRead(shell(text)), PageRead(shell(BENIGN))
    assert page.kinds == plain.kinds
    assert page.scripts == [SCRIPT]
    rules = directives(shell_policy())
    assert rules["script-src"] == hashes(page.scripts)
    assert rules["style-src"] == hashes(page.styles) == hashes([STYLE + LIVE_STYLE])
    assert page.links == ["report"]


def test_scripts_make_elements_and_never_html():
    """Words of data reach the page through textContent; a string is never read as HTML or as code."""
    assert len(SCRIPTS) > 15
    for source in (script(), SCRIPT.replace("before.outerHTML === after.outerHTML", "")):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\(.on", source
        )
        assert not re.search(
            r"https?://(?!www\.w3\.org/2000/svg)|\bimport\(|XMLHttpRequest|WebSocket|sendBeacon", source
        )
