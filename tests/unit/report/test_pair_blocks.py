"""What the explorer's page carries: everything comes back, nothing can break the page."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapo.report import explorer_assets
from gapo.report.elements import Section, document
from gapo.report.explorer import explorer, shown
from gapo.report.markup import _harmless, _name, tag, visible
from gapo.report.pair_blocks import CHARACTERS_IN_BLOCK, PAIRS_IN_BLOCK, pack, packed, short, unpack
from gapo.report.pair_view import PairText
from gapo.report.pair_words import explanations
from pair_views import made_page, made_view

ANY_TEXT = st.text(st.characters(codec=None), max_size=40)


@given(st.recursive(st.none() | st.integers() | ANY_TEXT, lambda inner: st.lists(inner, max_size=4), max_leaves=8))
def test_what_is_packed_comes_back(value):
    letters = pack(value)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", letters)  # nothing that means something in HTML
    assert unpack(letters) == value


@given(ANY_TEXT)
def test_the_fast_way_to_spell_characters_out_is_the_slow_one(text):
    assert visible(text) == "".join(c if _harmless(c) else _name(c) for c in text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_six_digits(value):
    assert short(value) == pytest.approx(value, rel=5.1e-6, abs=0)


def test_what_is_not_a_number_is_not_known():
    assert [short(value) for value in (nan, inf, -inf, None, "x", 3.0)] == [None, None, None, None, None, 3]


def test_every_pair_is_in_its_block():
    view = made_view(PAIRS_IN_BLOCK * 2 + 5)
    pairs = packed(view)
    light, blocks = unpack(pairs.light), [unpack(block) for block in pairs.blocks]
    assert light["ids"] == list(view.ids)
    assert light["starts"] == [0, PAIRS_IN_BLOCK, 2 * PAIRS_IN_BLOCK]
    texts = [PairText(*text) for block in blocks for text in block["texts"]]
    assert texts == list(view.texts)
    assert [words for block in blocks for words in block["words"]] == explanations(view)
    assert [h["series"]["gap"] for block in blocks for h in block["history"]] == [[0.5, None, 0.25, 0.125]] * len(texts)
    for column, packed_column in zip(view.columns, light["columns"], strict=True):
        words = packed_column.get("words")
        values = [words[v] if words and v is not None else v for v in packed_column["values"]]
        assert values == [pytest.approx(v, rel=1e-5) if isinstance(v, float) else v for v in column.values]


def test_long_texts_have_blocks_of_their_own():
    view = made_view(4)
    long = PairText("p", "x" * CHARACTERS_IN_BLOCK, "y")
    light = unpack(packed(replace(view, texts=[view.texts[0], long, long, view.texts[3]])).light)
    assert light["starts"] == [0, 1, 2, 3]


def test_ids_stay_true_and_are_spelled_out_where_they_are_shown():
    view = replace(made_view(2), ids=["a\u202eb", "plain \ud800"])
    light = unpack(packed(view).light)
    assert light["ids"] == list(view.ids)
    assert light["spelled"] == {"0": "a[U+202E]b", "1": "plain [U+D800]"}


def test_a_view_whose_parts_differ_in_length_is_refused():
    view = made_view(3)
    with pytest.raises(ValueError, match="a view of 2 pairs needs as many values: column weight has 3"):
        packed(replace(view, ids=view.ids[:2]))


def test_the_script_and_the_style_are_those_the_policy_names():
    html = made_page(made_view(2))
    [script] = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    for kind, text in (("script", script), ("style", style)):
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{kind}-src &#x27;sha256-{digest}&#x27;" in html
    assert "unsafe" not in html.split("</head>")[0].split("Content-Security-Policy")[1][:400]


def test_a_page_has_a_script_only_where_an_explorer_is():
    assert str(tag("div", class_="explorer")).removesuffix("</div>") == explorer_assets.OPENING
    assert explorer_assets.OPENING in explorer(made_view(2))
    words = document("t", "", [Section("a", "A", explorer_assets.OPENING)])  # as text, it is not one
    assert "<script" not in words
    assert "runs no script" in words


def test_the_script_is_small_files_that_name_nothing_twice():
    files = sorted(path.stem for path in explorer_assets.FOLDER.glob("*.js"))
    assert files == sorted(explorer_assets.SCRIPTS)
    texts = [path.read_text(encoding="utf-8") for path in explorer_assets.FOLDER.iterdir()]
    assert max(len(text.splitlines()) for text in texts) <= 300
    script = explorer_assets.script()
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, flags=re.MULTILINE)
    assert len(names) == len(set(names))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|</script|<!--|https?://(?!www\.w3)", script
    )


def test_a_cell_says_what_a_person_would():
    assert [shown(value) for value in (None, True, False, 0.12345678, "chat", 3.0)] == [
        "\u2013",
        "yes",
        "no",
        "0.1235",
        "chat",
        "3",
    ]
