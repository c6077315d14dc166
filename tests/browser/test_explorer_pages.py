"""The explorer under hard conditions: hostile and huge texts, many pairs, small and dark screens, paper, no script."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gapo.report.pair_view import PairColumn, PairText, PairView
from pair_views import made_page, made_view

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
ARABIC = "\u0645\u0631\u062d\u0628\u0627"
HOSTILE = (
    "<script>document.title = 'taken'</script></script><!-- --><img src=x onerror=alert(1)> &amp; ]]> "
    f"\u202egnp.exe \x00\x1b[31m bell\x07 {ARABIC} \u2028 \ud800 end"
)
MEGABYTE = 1_000_000
CONTROLS = {"button", "checkbox", "combobox", "searchbox", "textbox", "spinbutton", "grid", "dialog", "image", "radio"}


def open_first(page):
    page.locator(".row").first.click()
    page.wait_for_selector("dialog .why")
    return page.get_by_role("dialog")


def test_hostile_text_is_text(show):
    view = made_view(4)
    texts = [PairText(HOSTILE, HOSTILE + " chosen", HOSTILE + " rejected")] * 4
    columns = [*view.columns[:3], PairColumn("subset", HOSTILE, "word", [HOSTILE] * 4, HOSTILE)]
    page = show(replace(view, texts=texts, columns=columns, ids=[f"{HOSTILE} {i}" for i in range(4)], notes=(HOSTILE,)))
    dialog = open_first(page)
    said = dialog.get_by_label("Text: chosen").inner_text()
    assert said.startswith("<script>document.title = 'taken'</script></script><!-- --><img src=x onerror=alert(1)>")
    assert "[U+202E]gnp.exe [U+0000][U+001B][31m bell[U+0007]" in said
    assert f"{ARABIC} [U+2028] [U+D800] end chosen" in said
    assert dialog.locator("mark").all_inner_texts() == ["chosen", "rejected"]
    assert page.title() == "A page of pairs"
    assert page.locator("img, main script:not([type])").count() == 0
    page.keyboard.press("Escape")
    page.locator(".row input").first.check()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as .jsonl").click()
    assert "\\u202e" in waiting.value.path().read_text() or "\u202e" in waiting.value.path().read_text()  # the true id


def test_a_megabyte_in_one_line_is_cut_until_it_is_asked_for(show):
    view = made_view(3)
    long = [PairText("p", "a" * MEGABYTE, "word " * (MEGABYTE // 5)), *view.texts[1:]]
    order = replace(view, texts=long, columns=[replace(view.columns[0], values=[0.1, 0.5, 0.9])])
    page = show(order)
    dialog = open_first(page)
    chosen = dialog.get_by_label("Text: chosen")
    assert len(chosen.inner_text()) == 6000
    assert dialog.get_by_text("only in the first part").is_visible()
    dialog.get_by_role("button", name="Show all 1,000,000 characters").first.click()
    assert chosen.evaluate("e => e.textContent.length") == MEGABYTE
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_label("Text: prompt")).to_have_text(view.texts[1].prompt)


def test_twenty_thousand_pairs_stay_fluid(show, tmp_path, record_property, capsys):
    some = made_view(500).texts
    texts = [replace(some[i % 500], prompt=f"Prompt number{i} asks?") for i in range(20_000)]
    view = replace(made_view(20_000, texts=False, history=False), texts=texts)
    path = tmp_path / "many.html"
    path.write_text(made_page(view), encoding="utf-8")
    size = path.stat().st_size / 1e6
    page = show(path)
    ready = page.evaluate("performance.now()")
    grid, rows = page.locator(".pairs"), page.locator(".row")
    assert 10 < rows.count() < 100
    assert grid.get_attribute("aria-rowcount") == "20001"
    began = time.perf_counter()
    grid.evaluate("e => e.scrollTop = e.scrollHeight")
    page.wait_for_selector(".row[aria-rowindex='20001']")
    scrolled = time.perf_counter() - began
    assert rows.count() < 100
    gap = [float(value) for value in view.column("gap").values]
    began = time.perf_counter()
    page.get_by_role("button", name="Gap", exact=True).click()
    expect(rows.first.locator(".id")).to_have_text(view.ids[min(range(20_000), key=gap.__getitem__)])
    sorted_in = time.perf_counter() - began
    assert rows.count() < 100
    began = time.perf_counter()
    page.get_by_role("searchbox").fill("number19999 asks")
    expect(rows).to_have_count(1)
    searched = time.perf_counter() - began
    figures = {"page MB": size, "ready ms": ready, "scroll s": scrolled, "sort s": sorted_in, "text search s": searched}
    for name, value in figures.items():
        record_property(name, round(value, 3))
    with capsys.disabled():
        print("\n20,000 pairs: " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()))


def names_of_controls(page) -> list[tuple[str, str]]:
    """Role and name of every control, as assistive technology is told."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    kinds = [
        (n.get("role", {}).get("value", ""), n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]
    ]
    return [(role, name) for role, name in kinds if role.lower() in CONTROLS]


def test_every_control_has_a_name(show):
    page = show(made_view())
    page.get_by_label("Filter by").select_option(label="Gap")
    page.get_by_label("Filter by").select_option(label="Flipped")
    page.locator(".row input").first.check()
    open_first(page)
    found = names_of_controls(page)
    assert [role for role, name in found if not name.strip()] == []
    roles = {role.lower() for role, _ in found}
    assert {"button", "checkbox", "combobox", "searchbox", "grid", "dialog", "image"} <= roles
    [scatter] = [name for role, name in found if role == "image" and name.startswith("Scatter")]
    assert "Scatter of 60 pairs: Margin from" in scatter
    assert page.locator(".count[role=status]").inner_text().startswith("60 pairs")
    assert page.locator(".row").first.get_attribute("aria-rowindex") == "2"


def contrast(one: list[float], two: list[float]) -> float:
    """WCAG 2: of the relative luminances of two sRGB colours."""

    def luminance(colour: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


COLOURS = """(element) => {
  const numbers = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(") ? parts.map((part, k) => (k < 3 ? 255 * part : part)) : parts;
  };
  let ground = element;
  while (numbers(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
  return [numbers(getComputedStyle(element).color), numbers(getComputedStyle(ground).backgroundColor)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_both_pages(show, scheme):
    page = show(made_view(), color_scheme=scheme)
    open_first(page)
    for place in (".count", ".row .number", ".head button", ".key li .soft", ".why", ".terms td.soft", ".side h3"):
        text, ground = page.locator(place).first.evaluate(COLOURS)
        assert contrast(text[:3], ground[:3]) >= 4.5, place
        assert (sum(ground[:3]) < 200) == (scheme == "dark"), place


def test_a_phone_shows_a_pair_on_the_whole_screen(show):
    page = show(
        made_view(), viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True, reduced_motion="reduce"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".row").first.tap()
    page.wait_for_selector("dialog .why")
    assert page.get_by_role("dialog").bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 780}
    sides = [box.bounding_box() for box in page.locator(".side").all()]
    assert sides[1]["y"] >= sides[0]["y"] + sides[0]["height"]  # below each other
    assert page.get_by_role("dialog").evaluate("e => e.matches(':modal')")
    page.get_by_role("button", name="Close").tap()
    assert page.get_by_role("dialog").count() == 0


def test_motion_is_only_for_those_who_want_it(show):
    names = []
    for wish in ("reduce", "no-preference"):
        page = show(made_view(3), reduced_motion=wish)
        open_first(page)
        names.append(page.get_by_role("dialog").evaluate("e => getComputedStyle(e).animationName"))
    assert names == ["none", "explorer-in"]


def test_paper_has_the_first_fifty_rows(show):
    page = show(made_view())
    page.emulate_media(media="print")
    expect(page.locator(".paper tbody tr")).to_have_count(50)
    assert "60 pairs shown, sorted by Weight; the first 50 are printed." in page.locator(".paper").inner_text()
    assert not page.locator("canvas").first.is_visible()
    assert not page.get_by_role("grid").is_visible()
    page.emulate_media(media="screen")
    expect(page.locator(".paper tbody tr")).to_have_count(0)


def test_without_script_the_pairs_trusted_least_are_in_a_plain_table(show):
    view = made_view()
    page = show(view, java_script_enabled=False, ready=False)
    assert page.get_by_text("needs JavaScript").is_visible()
    weight = view.column("weight").values
    shown = page.locator(".explorer-plain tbody th").all_inner_texts()
    assert shown == [view.ids[i] for i in sorted(range(60), key=weight.__getitem__)[:20]]


def test_where_nothing_can_be_unpacked_the_plain_table_stays(show):
    page = show(made_view(5), before="delete window.DecompressionStream; console.error = () => {};", ready=False)
    expect(page.get_by_text("cannot be unpacked here")).to_be_visible()
    assert page.locator(".explorer-plain tbody tr").count() == 5


def test_a_view_without_pairs_or_with_one(show):
    one = made_view(1, texts=False)
    page = show(one)
    dialog = open_first(page)
    assert "like all others" in dialog.inner_text()
    nothing = PairView(ids=(), columns=())
    page = show(nothing, ready=False)
    assert page.get_by_text("There are no pairs to look at.").is_visible()
    assert "runs no script" in page.locator("footer").inner_text()


def test_a_pair_far_out_is_drawn_at_the_edge_and_selected_there(show):
    view = made_view(300)
    gap = [float(value) for value in view.column("gap").values]
    gap[5] = 1e4
    columns = [replace(column, values=gap) if column.key == "gap" else column for column in view.columns]
    page = show(replace(view, columns=columns))
    box = page.locator(".over").bounding_box()
    assert page.get_by_text("Pairs at the edge lie beyond it.").is_visible()
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    expect(page.locator(".row", has_text="pair-00005")).to_have_count(1)
    assert not page.locator(".count").inner_text().startswith("1 of")  # the others are not pressed to the floor
