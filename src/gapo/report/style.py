"""How the page looks: one style sheet, light and dark, for screen, phone and paper."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from gapo.report.figures import SERIES

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #23272e; --soft: #626a75; --line: #e2e4e7; --accent: #2f6fb3;
  --care: #fdf5e6;
  --care-line: #e3bd75; --shade: #00000024; --new: #dcecdf;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #15181c; --card: #1c2025; --ink: #dfe3e8; --soft: #98a2ae; --line: #30363d; --accent: #7ab0e8;
    --care: #2a2419;
    --care-line: #7d6433; --shade: #ffffff2b; --new: #24422d;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 74rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: break-word;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 3rem 0 .6rem; padding-top: 1.1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0 .9rem; max-width: 46rem; }
a { color: var(--accent); text-underline-offset: .15em; }
.kicker { color: var(--soft); margin: 0 0 .3rem; font-size: .875rem; }
.lead { font-size: 1.2rem; line-height: 1.5; max-width: 50rem; }
.soft, figcaption { color: var(--soft); font-size: .875rem; }
nav { margin: 1.2rem 0 0; font-size: .875rem; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
.care {
  background: var(--care); border-left: 3px solid var(--care-line); border-radius: 4px; padding: .7rem 1rem;
  margin: 1.5rem 0 0;
}
.care h2 { all: unset; font-weight: 600; }
.care ul { margin: .3rem 0 0; padding-left: 1.2rem; }
.cards {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .8rem; margin: 1.5rem 0 0;
}
.card, figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.card { padding: .8rem 1rem; }
.card dt { color: var(--soft); font-size: .8125rem; }
.card dd { margin: 0; }
.card .number { font-size: 1.5rem; line-height: 1.3; font-weight: 600; }
.card .note { color: var(--soft); font-size: .8125rem; line-height: 1.4; }
.grid {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(21rem, 100%), 1fr)); gap: 1rem;
  margin: 1rem 0;
}
.wide { max-width: 62rem; overflow-x: auto; }
.wide svg { min-width: 46rem; }
figure { margin: 0; padding: .9rem 1rem; }
figure svg { display: block; width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt; }
figcaption { margin-top: .5rem; line-height: 1.45; }
h3.soft { font-weight: 500; margin: 0 0 .2rem; }
.missing { display: grid; align-content: start; }
.scroll {
  overflow-x: auto; margin: .8rem 0 1.2rem;  /* a shade at the right edge while there is more to see */
  background: linear-gradient(to left, var(--page) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / .8rem 100% no-repeat scroll;
}
table { border-collapse: collapse; font-size: .875rem; width: max-content; min-width: 50%; }
.words { width: auto; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td {
  text-align: right; padding: .38rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
  white-space: nowrap;
}
th:first-child, td:first-child, .words th, .words td { text-align: left; }
th:first-child, td:first-child { padding-left: 0; }
.words td { white-space: pre-wrap; overflow-wrap: anywhere; }
thead th {
  color: var(--soft); font-weight: 500; border-bottom-color: var(--soft); vertical-align: bottom;
  white-space: normal;
}
tbody th { font-weight: 500; }
.ids tbody th {
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .82rem;
}
pre {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem;
  overflow-x: auto; margin: .8rem 0;
  font: .84rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
pre.command { white-space: pre-wrap; overflow-wrap: anywhere; }
.reply { margin: 1.2rem 0; break-inside: avoid; }
.said {
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 22rem; overflow-y: auto; margin: 0;
  max-width: none;
}
.prompt { font-weight: 600; margin-bottom: .6rem; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr)); gap: .8rem; }
.side { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem 1rem; }
ins { text-decoration: none; background: var(--new); border-radius: 3px; padding: 0 .12em; }
del { color: var(--soft); text-decoration-color: var(--soft); }
.key {
  display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; margin: .8rem 0; list-style: none;
  font-size: .9rem;
}
.key li { overflow-wrap: anywhere; }
.chip {
  display: inline-block; width: 1.2rem; height: .35rem; border-radius: 2px; margin-right: .45rem;
  vertical-align: middle;
}
footer { margin-top: 3rem; color: var(--soft); font-size: .8125rem; }
@media (max-width: 30rem) {
  body { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.45rem; }
  .lead { font-size: 1.08rem; }
  .cards { grid-template-columns: 1fr 1fr; }
  .card .number { font-size: 1.25rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; background: none; }
  nav { display: none; }
  figure, .card, tr, .care { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .grid { grid-template-columns: 1fr 1fr; }
  .said { max-height: none; overflow: visible; }
  .scroll, .wide { overflow: visible; background: none; }
  .wide svg { min-width: 0; }
  table { font-size: 8pt; }
  th, td { white-space: normal; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
""" + "".join(f".series-{place} {{ background: {colour}; }}\n" for place, colour in enumerate(SERIES))


def policy(style: str = STYLE, script: str | None = None) -> str:
    """Nothing may be loaded; the one style sheet, and the one script where there is one, are named by their hash."""
    run = "" if script is None else f" script-src '{_hash(script)}';"
    return f"default-src 'none'; style-src '{_hash(style)}';{run} base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
