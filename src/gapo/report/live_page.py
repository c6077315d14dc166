"""The page that `gapo watch` serves: a line on top that says where the run stands, and the run's page below it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from gapo.report.markup import Markup, tag
from gapo.report.style import STYLE

LIVE_STYLE = """
.live {
  position: sticky; top: 0; z-index: 2; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem 1rem; margin: 0 0 1.5rem; font-size: .9375rem;
}
.live p { margin: 0; max-width: none; }
.live progress { width: 100%; height: .5rem; margin: .35rem 0; accent-color: var(--accent); }
.live .last { display: flex; flex-wrap: wrap; gap: 0 1.1rem; color: var(--soft); font-size: .8125rem; }
.live .row { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; }
.live[data-state="died"], .live[data-state="gone"], .live[data-state="silent"] {
  background: var(--care); border-color: var(--care-line);
}
section { scroll-margin-top: 6rem; }
h2 { scroll-margin-top: 6rem; }
@media print { .live { position: static; } }
"""

SCRIPT = """
(() => {
  "use strict";
  const at = id => document.getElementById(id);
  const GONE = "gapo watch was ended; this is how the run stood when it was last seen.";
  let shown = null;

  async function ask(path) {
    const answer = await fetch(path, {cache: "no-store", credentials: "omit"});
    if (!answer.ok) throw new Error(answer.status);
    return answer;
  }

  function tell(status) {
    at("live").dataset.state = status.state;
    at("words").textContent = status.words;
    at("steps").textContent = status.steps;
    at("bar").hidden = !status.total;
    if (status.total) { at("bar").max = status.total; at("bar").value = status.step; }
    at("last").replaceChildren(...status.last.map(([name, value]) => {
      const item = document.createElement("span");
      item.textContent = name + " " + value;
      return item;
    }));
    at("whole").hidden = status.state !== "ended";
    document.title = (status.state === "training" ? status.steps : status.state) + " \\u00b7 " + at("live").dataset.run;
  }

  function keepState(before, after) {
    const old = before.querySelectorAll("details"), fresh = after.querySelectorAll("details");
    old.forEach((part, place) => { if (fresh[place]) fresh[place].open = part.open; });
    const slid = [...before.querySelectorAll(".scroll, .said, pre")].map(part => [part.scrollLeft, part.scrollTop]);
    return () => after.querySelectorAll(".scroll, .said, pre").forEach((part, place) => {
      if (slid[place]) [part.scrollLeft, part.scrollTop] = slid[place];
    });
  }

  function beingRead(part) {
    const chosen = getSelection();
    return chosen && !chosen.isCollapsed && chosen.containsNode(part, true);
  }

  function swap(before, after) {
    if (before.outerHTML === after.outerHTML || beingRead(before)) return;
    const restore = keepState(before, after);
    before.replaceWith(after);
    restore();
  }

  async function draw() {
    const answer = await ask("page");
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const parts = page => [...page.querySelectorAll("header, section")];
    const names = list => list.map(part => part.querySelector("h2")?.id ?? "").join();
    const old = parts(at("page")), now = parts(fresh);
    if (old.length && names(old) === names(now)) old.forEach((part, place) => swap(part, now[place]));
    else at("page").replaceChildren(fresh.querySelector("header"), fresh.querySelector("main"));
    shown = answer.headers.get("ETag");
  }

  async function look() {
    let pause = 2000;
    try {
      const status = await (await ask("status")).json();
      tell(status);
      if (status.page !== shown) await draw();
      if (status.state === "ended") pause = 10000;
    } catch (error) {
      at("live").dataset.state = "gone";
      at("words").textContent = GONE;
      pause = 5000;
    }
    setTimeout(look, pause);
  }
  look();
})();
"""


def shell(name: str) -> str:
    """The page before it has asked for anything."""
    line = (
        tag("div", tag("strong", "", id="words"), tag("span", "", id="steps"), class_="row"),
        tag("progress", "", id="bar", hidden=True, aria_label="steps taken"),
        tag("div", "", id="last", class_="last"),
        tag("p", tag("a", "The whole page, with every pair", href="report"), id="whole", hidden=True),
    )
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{name} \u2013 gapo watch"),
        tag("style", Markup(STYLE + LIVE_STYLE)),
    )
    body = (
        tag("div", line, id="live", class_="live", data_run=name, data_state="starting"),
        tag("noscript", "This page follows a run with a script, which is off or not allowed here."),
        tag("div", "", id="page"),
        tag("footer", "Served by gapo watch to this machine alone; it changes nothing. Ctrl-C there ends it."),
        tag("script", Markup(SCRIPT)),
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def shell_policy() -> str:
    """It may run its one script and style, and ask its own server; nothing else."""
    style, script = (b64encode(sha256(text.encode()).digest()).decode() for text in (STYLE + LIVE_STYLE, SCRIPT))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
