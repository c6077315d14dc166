"""What a person does in the pair explorer, and what they then see."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.path import Path as Polygon

from gapo.report.pair_view import PairView
from pair_views import made_view

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
LEFT, RIGHT, TOP, BOTTOM, ROOM = 58, 14, 12, 46, 0.04  # the frame of the scatter


@pytest.fixture(scope="module")
def view() -> PairView:
    return made_view()


def known(view: PairView, key: str) -> np.ndarray:
    column = view.column(key)
    return np.array([np.nan if value is None else value for value in column.values], dtype=float)


def ids_shown(page) -> list[str]:
    """The ids of the rows in the page, from top to bottom."""
    rows = page.locator(".row").evaluate_all(
        "all => all.map(r => [+r.getAttribute('aria-rowindex'), r.querySelector('.id').textContent])"
    )
    return [name for _, name in sorted(rows)]


def says(page, start: str) -> None:
    """Waits until the line above the table begins like this."""
    expect(page.locator(".count")).to_have_text(re.compile(f"^{re.escape(start)}"))


def count(page) -> str:
    return page.locator(".count").inner_text().replace("\u00a0", " ")


def spot(page, view: PairView, row: int, across: str = "margin", up: str = "gap") -> tuple[float, float]:
    """Where a pair is drawn, in pixels of the window."""
    box = page.locator(".over").bounding_box()
    places = []
    for key, start, end in ((across, LEFT, box["width"] - RIGHT), (up, box["height"] - BOTTOM, TOP)):
        values = known(view, key)
        low, high = np.nanmin(values), np.nanmax(values)
        share = (values[row] - low + ROOM * (high - low)) / ((1 + 2 * ROOM) * (high - low))
        places.append(start + share * (end - start))
    return box["x"] + places[0], box["y"] + places[1]


def drag(page, *points: tuple[float, float]) -> None:
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=6)
    page.mouse.up()


def add_filter(page, title: str):
    page.get_by_label("Filter by").select_option(label=title)
    return page.locator(".filters fieldset").last


def by_weight(view: PairView) -> list[str]:
    return [view.ids[i] for i in np.argsort(known(view, "weight"), kind="stable")]


def test_the_pairs_trusted_least_come_first(show, view):
    page = show(view)
    assert ids_shown(page)[:10] == by_weight(view)[:10]
    assert page.locator("[aria-sort]").get_attribute("data-key") == "weight"
    assert count(page).startswith("60 pairs, ")
    assert "runs only the script that is in it" in page.locator("footer").inner_text()
    assert not page.locator(".explorer-plain").count()
    assert "made up" in page.locator("main").inner_text()


def test_a_column_sorts_both_ways_and_the_unknown_stay_last(show, view):
    page = show(view)
    margin, header = known(view, "margin"), page.get_by_role("button", name="Margin", exact=True)
    header.click()
    assert ids_shown(page)[0] == view.ids[int(np.nanargmin(margin))]
    assert page.locator("[data-key=margin]").get_attribute("aria-sort") == "ascending"
    header.click()
    assert ids_shown(page)[0] == view.ids[int(np.nanargmax(margin))]
    assert page.locator("[data-key=margin]").get_attribute("aria-sort") == "descending"
    page.locator(".pairs").evaluate("e => e.scrollTop = e.scrollHeight")
    page.wait_for_selector(f".row:has-text('{view.ids[30]}')")
    assert ids_shown(page)[-1] == view.ids[30]
    page.get_by_role("button", name="Pair", exact=True).click()
    assert ids_shown(page)[:3] == list(view.ids[:3])


def test_search_finds_ids_at_once_and_texts_when_they_were_read(show, view):
    page = show(view)
    box = page.get_by_role("searchbox")
    box.fill("PAIR-0001")
    says(page, "10 of")
    assert sorted(ids_shown(page)) == [f"pair-{i:05d}" for i in range(10, 20)]
    box.fill("Number37 asks")
    says(page, "1 of")
    assert ids_shown(page) == ["pair-00037"]
    box.fill("nowhere to be found")
    says(page, "0 of")
    assert page.get_by_text("No pair is left.").is_visible()
    page.get_by_role("button", name="Clear all").click()
    assert count(page).startswith("60 pairs")
    assert box.input_value() == ""


def test_a_number_is_filtered_by_its_range(show, view):
    page, gap = show(view), known(view, "gap")
    low, high = np.quantile(gap, [0.3, 0.8]).round(3)
    part = add_filter(page, "Gap")
    part.get_by_label("Gap, at least").fill(str(low).replace(".", ","))
    part.get_by_label("Gap, at most").fill(str(high))
    wanted = int(((gap >= low) & (gap <= high)).sum())
    says(page, f"{wanted} of 60")
    part.get_by_label("Gap, at most").fill("many")
    page.wait_for_selector("[aria-invalid=true]")
    assert count(page).startswith(f"{wanted} of 60")
    part.get_by_role("button", name="Remove").click()
    assert count(page).startswith("60 pairs")


def test_words_and_truths_are_picked(show, view):
    page = show(view)
    subset = add_filter(page, "Subset")
    subset.get_by_label("code").check()
    assert count(page).startswith("20 of 60 pairs")
    subset.get_by_label("chat").check()
    assert count(page).startswith("40 of 60 pairs")
    flipped = add_filter(page, "Flipped")
    flipped.get_by_label("unknown").check()
    both = [i for i in range(60) if i % 3 < 2 and view.column("flipped").values[i] is None]
    assert count(page).startswith(f"{len(both)} of 60 pairs")
    assert sorted(ids_shown(page)) == [view.ids[i] for i in both]


def test_the_count_says_how_many_of_the_shown_are_flipped(show, view):
    page = show(view)
    add_filter(page, "Flipped").get_by_label("yes").check()
    truth = [value for value in view.column("flipped").values if value is not None]
    rate = f"{100 * sum(truth) / len(truth):.0f} % of all"
    assert count(page) == f"{sum(truth)} of 60 pairs, 100 % flipped ({rate})"


def test_a_rectangle_in_the_scatter_selects_its_pairs(show, view):
    page = show(view)
    (x, y), box = spot(page, view, 7), page.locator(".over").bounding_box()
    drag(page, (x - 6, y + 6), (box["x"] + box["width"] - 1, box["y"] + 1))
    spots = [spot(page, view, i) for i in range(60)]
    inside = [view.ids[i] for i, (left, top) in enumerate(spots) if left > x - 6 and top < y + 6]
    says(page, f"{len(inside)} of 60")
    assert sorted(ids_shown(page)) == inside
    assert view.ids[7] in inside
    page.mouse.click(box["x"] + 3, box["y"] + box["height"] - 3)
    says(page, "60 pairs")


def test_a_line_by_hand_selects_what_it_encloses(show, view):
    page = show(view)
    page.get_by_label("Drag to select by a").select_option("lasso")
    row = int(np.argmax(known(view, "gap")))
    x, y = spot(page, view, row)
    corners = [(x - 14, y - 10), (x + 60, y - 10), (x, y + 90), (x - 14, y - 10)]
    inside = Polygon(corners).contains_points([spot(page, view, i) for i in range(60)])
    drag(page, *corners)
    says(page, f"{inside.sum()} of 60")
    assert sorted(ids_shown(page)) == [view.ids[i] for i in np.flatnonzero(inside)]
    assert inside[row]
    page.get_by_label("Across").select_option("weight")  # another axis: that outline means nothing
    says(page, "60 pairs")


def test_a_row_and_its_point_light_up_together(show, view):
    page = show(view)
    first = ids_shown(page)[0]
    page.locator(".row", has_text=first).hover()
    page.wait_for_selector(f".tip:visible:has-text('{first}')")
    page.mouse.move(*spot(page, view, list(view.ids).index(first)))
    page.wait_for_selector(f".row.hover:has-text('{first}')")
    page.mouse.move(2, 2)
    page.wait_for_selector(".tip", state="hidden")


def test_a_point_opens_its_pair(show, view):
    page, row = show(view), int(np.argmax(known(view, "gap")))
    page.mouse.click(*spot(page, view, row))
    assert page.get_by_role("dialog").get_by_role("heading", level=2).inner_text() == view.ids[row]
    page.get_by_label("Colour", exact=True).select_option("subset")
    page.wait_for_selector(".scatter .key:has-text('chat')")
    page.get_by_label("Colour", exact=True).select_option("weight")
    page.wait_for_selector(".scatter .key:has-text('from')")


def test_an_opened_pair_shows_texts_terms_history_and_why(show, view):
    page = show(view)
    page.locator(".row").first.click()
    row = list(view.ids).index(by_weight(view)[0])
    dialog = page.get_by_role("dialog")
    page.wait_for_selector(".why")
    text = dialog.inner_text().replace("\u00a0", " ")
    assert "the least of all 60 pairs." in text
    assert "1 of 60 pairs shown" in text
    assert dialog.get_by_label("Text: prompt").inner_text() == view.texts[row].prompt
    assert dialog.get_by_label("Text: chosen").inner_text() == view.texts[row].chosen
    assert dialog.get_by_label("Text: rejected").inner_text() == view.texts[row].rejected
    norm = known(view, "grad_norm")
    line = dialog.locator(".terms tr", has_text="Gradient norm").inner_text().replace("\u00a0", " ")
    below = int((norm < norm[row]).mean() * 100)
    assert re.search(rf"more than {below} %|the most of all", line)
    labels = dialog.get_by_role("img").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert labels[1] == "Gap from 0.5 at step 10 to 0.125 at step 160"
    assert [label.split()[0] for label in labels] == ["Weight", "Gap", "Margin"]


def test_what_is_not_marked_is_the_same_in_both_responses(show, view):
    page = show(view)
    page.locator(".row").first.click()
    for name in by_weight(view)[:20]:
        place = list(view.ids).index(name)
        expect(page.locator(".words-of").first).to_have_text(view.texts[place].prompt)
        plain = page.locator(".side .words-of").evaluate_all(
            "all => all.map(e => [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent).join(' '))"
        )
        assert plain[0].split() == plain[1].split()
        page.keyboard.press("ArrowRight")


def test_the_pair_beside_it_opens_and_escape_gives_the_focus_back(show, view):
    page = show(view)
    page.locator(".pairs").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    order, title = by_weight(view), page.get_by_role("dialog").get_by_role("heading", level=2)
    assert title.inner_text() == order[0]
    assert page.get_by_role("button", name="Previous pair").is_disabled()
    page.get_by_role("button", name="Next pair").click()
    assert title.inner_text() == order[1]
    page.keyboard.press("k")
    assert title.inner_text() == order[0]
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    assert page.evaluate("document.activeElement.getAttribute('role')") == "grid"


def test_the_keyboard_alone_does_everything(show, view):
    page = show(view)
    page.keyboard.press("/")
    page.keyboard.type("pair-0002")
    says(page, "10 of")
    page.keyboard.press("Escape")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    third = page.locator(".row[aria-selected=true] .id").inner_text()
    assert third == ids_shown(page)[2]
    active = page.locator(".pairs").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active} .id").inner_text() == third
    page.keyboard.press("m")
    page.keyboard.press("End")
    page.keyboard.press(" ")
    assert page.locator(".row.marked").count() == 2
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("[aria-sort]").get_attribute("data-key") == "flipped"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .why")
    page.keyboard.press("m")
    assert page.locator("dialog [aria-pressed=true]").inner_text() == "Marked \u2713"
    page.keyboard.press("Escape")
    outline = page.locator(".pairs").evaluate("e => getComputedStyle(e).outlineStyle")
    assert outline == "solid"  # where the focus is can be seen


def saved(page, name: str) -> tuple[str, str]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name).click()
    return waiting.value.suggested_filename, waiting.value.path().read_text(encoding="utf-8")


def test_marked_and_shown_ids_are_saved_and_copied(show, view):
    page, order = show(view), by_weight(view)
    assert page.get_by_role("button", name="Copy ids").is_disabled()
    for name in order[:2]:
        page.get_by_label(f"Mark pair {name}").check()
    wanted = sorted(order[:2])
    assert saved(page, "Save ids as .txt") == ("marked-pairs.txt", "".join(f"{name}\n" for name in wanted))
    _, lines = saved(page, "Save as .jsonl")
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [row["id"] for row in rows] == wanted
    first = list(view.ids).index(wanted[0])
    assert rows[0]["gap"] == pytest.approx(known(view, "gap")[first], rel=1e-5)
    assert rows[0]["flipped"] is view.column("flipped").values[first]
    assert rows[0]["subset"] == view.column("subset").values[first]
    page.get_by_role("button", name="Copy ids").click()
    page.get_by_text("2 ids copied").wait_for()
    page.get_by_role("searchbox").focus()
    page.keyboard.press("Control+V")
    assert page.get_by_role("searchbox").input_value().split() in (wanted, ["".join(wanted)])
    page.get_by_role("searchbox").fill("pair-0003")
    says(page, "10 of")
    page.get_by_label("Export", exact=True).select_option("shown")
    _, text = saved(page, "Save ids as .txt")
    assert text.split() == [name for name in order if name.startswith("pair-0003")]


def test_marks_survive_a_reload_and_can_be_shown_alone(show, view):
    page, order = show(view), by_weight(view)
    page.get_by_label(f"Mark pair {order[3]}").check()
    page.reload()
    page.wait_for_selector(".explorer[data-ready]")
    assert page.get_by_label(f"Mark pair {order[3]}").is_checked()
    page.get_by_label("Only marked").check()
    assert ids_shown(page) == [order[3]]
    page.get_by_role("button", name="Remove all marks").click()
    assert page.get_by_text("No pair is left.").is_visible()
    page.get_by_role("button", name="Clear all").click()
    page.get_by_role("button", name="Mark all shown").click()
    assert page.locator(".export option").first.inner_text() == "marked (60)"


def test_where_the_browser_keeps_nothing_marks_still_work(show, view):
    denied = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('denied'); } })"
    page = show(view, before=denied)
    page.locator(".row input").first.check()
    assert page.locator(".row.marked").count() == 1


def test_two_explorers_on_a_page_keep_apart(show, view, tmp_path):
    from gapo.report.elements import Section, document
    from gapo.report.explorer import explorer

    parts = [Section("one", "One", explorer(view)), Section("two", "Two", explorer(made_view(8, seed=3)))]
    path = tmp_path / "two.html"
    path.write_text(document("Two", "", parts), encoding="utf-8")
    page = show(path)
    expect(page.locator(".explorer[data-ready]")).to_have_count(2)
    assert [text.split(",")[0] for text in page.locator(".count").all_inner_texts()] == ["60 pairs", "8 pairs"]
    names = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(names) == len(set(names))


def test_what_is_not_known_is_not_shown(show):
    bare = replace(made_view(5, texts=False, history=False), colours=(), columns=())
    page = show(bare)
    assert count(page) == "5 pairs"
    assert page.locator("canvas").count() == 0
    page.locator(".row").first.click()
    assert page.get_by_role("dialog").get_by_role("heading", level=2).inner_text() == "pair-00000"
    assert page.get_by_role("searchbox").get_attribute("placeholder") == "Search ids"
