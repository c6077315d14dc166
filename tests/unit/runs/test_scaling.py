"""docs/distributed.md says what the code computes."""

from pathlib import Path

from gapo.runs.computed import filled
from gapo.runs.scaling import TABLES, main

PAGE = Path(__file__).parents[3] / "docs" / "distributed.md"


def test_the_tables_of_the_docs_are_computed():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- computed: {name} -->" in text for name in TABLES)
    assert text == filled(text, TABLES), "run: python -m gapo.runs.scaling docs/distributed.md"


def test_a_page_is_filled_in_place(tmp_path):
    page = tmp_path / "page.md"
    other = "<!-- computed: somebody-elses -->\nkept\n<!-- end -->\nafter\n"
    page.write_text(f"before\n<!-- computed: paper -->\nold\n<!-- end -->\n{other}")
    main([str(page)])
    text = page.read_text()
    assert text.startswith("before\n<!-- computed: paper -->\n| Mistral 7B")
    assert text.endswith(f"<!-- end -->\n{other}")
    assert "old" not in text
