"""docs/distributed.md says what the code computes."""

from pathlib import Path

from gapo.runs.scaling import TABLES, filled, main

PAGE = Path(__file__).parents[3] / "docs" / "distributed.md"


def test_the_tables_of_the_docs_are_computed():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- computed: {name} -->" in text for name in TABLES)
    assert text == filled(text), "run: python -m gapo.runs.scaling docs/distributed.md"


def test_a_page_is_filled_in_place(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- computed: paper -->\nold\n<!-- end -->\nafter\n")
    main([str(page)])
    text = page.read_text()
    assert text.startswith("before\n<!-- computed: paper -->\n| Mistral 7B")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
