"""A real browser, one for all tests of a process; a page fails its test if it complains or asks for anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gapo.report.pair_view import PairView
from pair_views import made_page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> str | None:
    named = os.environ.get("GAPO_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")  # not longer: while playwright runs, nobody else in this process can use asyncio.run
def browser() -> Iterator:
    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium here: install it (apt-get install chromium) or name it in GAPO_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox refuses to run as root
        arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if root else [])]
        found = driver.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


@pytest.fixture
def show(browser, tmp_path: Path) -> Iterator[Callable]:
    """Opens a view, or a page that is written already; keywords are those of a browser context."""
    contexts, complaints, requests, files = [], [], [], set()

    def opened(view: PairView | Path, *, before: str | None = None, ready: bool = True, **settings):
        path = view if isinstance(view, Path) else tmp_path / "page of pairs.html"
        if isinstance(view, PairView):
            path.write_text(made_page(view), encoding="utf-8")
        files.add(path.as_uri())
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        if before:
            page.add_init_script(before)
        page.goto(path.as_uri())
        if ready:
            page.wait_for_selector(".explorer[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for url in requests if not url.startswith("blob:")} <= files  # a saved file is a blob of the page
