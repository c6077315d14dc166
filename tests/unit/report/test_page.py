"""The page: one file, safe to open, whatever the run left behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.report import write_report
from gapo.report.markup import VOID, Markup, join, tag, visible

HOSTILE = "<script>alert(1)</script>"


class Balanced(HTMLParser):
    """Every tag that opens closes, in order; collects ids, links and what would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        if name not in VOID:
            self.open.append(name)
        self.note(name, dict(attributes))

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.note(name, dict(attributes))

    def note(self, name: str, attributes: dict[str, str | None]) -> None:
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes["href"] or ""] if "href" in attributes else []
        self.loads += [
            f"{name} {key}" for key in attributes if key in {"src", "srcset", "style"} or key.startswith("on")
        ]

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


@pytest.fixture
def quick(monkeypatch) -> None:
    """Pages without drawings, for tests of words: drawing is nine tenths of the time."""
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))


def parsed(page: Path) -> Balanced:
    found = Balanced()
    found.feed(page.read_text(encoding="utf-8"))
    found.close()
    assert found.open == []
    found.text = found.text.replace("\u00a0", " ")
    return found


def only_our_script(html: str) -> bool:
    """One script that may run, named by its digest in the policy; what else is a script element is data."""
    run = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    others = re.findall(r"<script (?!type=\"(?:application/json|text/plain)\")", html)
    digests = re.search(r"script-src ([^;]*);", html.replace("&#x27;", "'"))
    named = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in run]
    return not others and (digests.group(1).split() if digests else []) == named and len(named) <= 1


def test_a_page_is_balanced_and_loads_nothing(make_run):
    page = write_report(make_run())
    html, found = page.read_text(encoding="utf-8"), parsed(page)
    assert page.name == "report.html"
    named = html.replace("http://www.w3.org/2000/svg", "")  # a name of a language, which nobody fetches
    assert not re.search(r"https?://|<link|<img|@import|url\((?!#)", named)
    assert only_our_script(html)
    assert found.loads == []
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert "default-src 'none'" in html.replace("&#x27;", "'")


@pytest.mark.usefixtures("quick")
def test_the_style_is_the_one_the_policy_names(make_run):
    from base64 import b64encode
    from hashlib import sha256

    html = write_report(make_run()).read_text(encoding="utf-8")
    [style] = re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    assert b64encode(sha256(style.encode()).digest()).decode() in html


@pytest.mark.usefixtures("quick")
def test_the_result_is_said_in_one_sentence(make_run):
    text = parsed(write_report(make_run())).text
    assert (
        "gapo took reward accuracy on 600 clean held-out pairs from 51.2 % to 74.6 % in 60 steps; "
        "20 % of the training labels were flipped." in text
    )
    assert "gapo train recipes/mini.yaml --out 'runs/my run'" in text


@pytest.mark.usefixtures("quick")
def test_words_of_people_and_models_stay_text(make_run):
    arabic = "\u0645\u0631\u062d\u0628\u0627"
    reply = {"prompt": HOSTILE, "before": "bell\x07 \u202egnp.exe", "after": f"{arabic} \ud800 &amp; \x00"}
    folder = make_run(evals={"replies": [reply], "warnings": [HOSTILE], "objective": "<b>gapo</b>"})
    page = write_report(folder)
    text = parsed(page).text
    assert only_our_script(page.read_text(encoding="utf-8"))
    assert text.count(HOSTILE) == 2
    assert "bell[U+0007] [U+202E]gnp.exe" in text
    assert f"{arabic} [U+D800] &amp; [U+0000]" in text
    assert "<b>gapo</b> took" in text


@pytest.mark.filterwarnings("error")
def test_a_run_folder_with_a_strange_name_is_safe(make_run):
    folders = [make_run('a"<i>&$x$', steps=2), make_run("_javascript:alert(1) \u65e5\u672c", steps=2)]
    found = parsed(write_report(folders))
    assert 'a"<i>&$x$' in found.text
    assert all(link.startswith(("#", "./")) for link in found.links)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("evals.json", "no result yet, because there is no evals.json; 60 steps recorded"),
        ("steps.jsonl", "There is no steps.jsonl with steps in this run"),
        ("pairs.parquet", "There is no readable pairs.parquet"),
        ("environment.json", "There is no readable environment.json"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_a_missing_file_is_said_in_words(make_run, name, words):
    folder = make_run()
    (folder / name).unlink()
    assert words in parsed(write_report(folder)).text


@pytest.mark.usefixtures("quick")
def test_a_recipe_alone_makes_a_page(make_run):
    folder = make_run()
    for path in folder.iterdir():
        if path.name != "recipe.yaml":
            path.unlink()
    assert "no step recorded" in parsed(write_report(folder)).text


@pytest.mark.usefixtures("quick")
def test_unreadable_files_are_named(make_run):
    folder = make_run()
    (folder / "evals.json").write_text("{")
    (folder / "environment.json").write_text("[1]")
    (folder / "pairs.parquet").write_bytes(b"PAR1 cut")
    text = parsed(write_report(folder)).text
    assert "evals.json is not readable JSON" in text
    assert "environment.json does not hold a JSON object" in text
    assert "pairs.parquet is not readable" in text


@pytest.mark.usefixtures("quick")
def test_results_of_the_wrong_kind_are_left_out(make_run):
    evals = {"pairs": "many", "before": None, "after": {"accuracy": "high"}, "noise": 3, "replies": [7], "measures": []}
    text = parsed(write_report(make_run(evals=evals))).text
    assert "evals.json holds no accuracy after training" in text


def test_a_run_without_an_anchor_says_what_it_does_not_have(make_run):
    text = parsed(write_report(make_run(objective="simpo", anchor=False))).text
    assert "steps.jsonl has no gap_mean; simpo does not compute it" in text
    assert "steps.jsonl has no self_check_ratio" in text


@pytest.mark.parametrize(("flips", "words"), [(None, "is not known in this run"), (False, "is clean")])
@pytest.mark.usefixtures("quick")
def test_a_run_without_flipped_labels_says_so(make_run, flips, words):
    assert words in parsed(write_report(make_run(flips=flips))).text


@pytest.mark.parametrize("steps", [1, 2])
def test_a_very_short_run_has_a_page(make_run, steps):
    parsed(write_report(make_run(steps=steps, per_step=1)))


@pytest.mark.usefixtures("quick")
def test_a_self_check_out_of_band_is_told(make_run):
    folder = make_run()
    with open(folder / "steps.jsonl", "a") as file:
        file.write(json.dumps({"step": 61, "self_check_ratio": 1.9}) + "\n")
    assert "left its band of 0.8 to 1.25 in 1 of 61 steps" in parsed(write_report(folder)).text


@pytest.mark.usefixtures("quick")
def test_several_runs_link_to_their_own_pages(make_run):
    folders = [
        make_run("dpo", objective="dpo", anchor=False),
        make_run("gapo one"),
        make_run("simpo", objective="simpo"),
    ]
    page = write_report(folders)
    found = parsed(page)
    assert page == folders[0].parent / "report.html"
    assert [link for link in found.links if link.startswith("./")] == [
        "./dpo/report.html",
        "./gapo%20one/report.html",
        "./simpo/report.html",
    ]
    assert all((folder / "report.html").is_file() for folder in folders)
    assert "objective.name" in found.text


@pytest.mark.usefixtures("quick")
def test_the_comparison_can_lie_elsewhere(make_run, tmp_path):
    folders = [make_run("a"), make_run("b")]
    page = write_report(folders, out=tmp_path / "pages" / "both.html")
    assert "../runs/a/report.html" in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("quick")
def test_runs_with_nothing_but_recipes_can_be_compared(make_run):
    folders = [make_run("a"), make_run("b")]
    for folder in folders:
        for name in ("evals.json", "steps.jsonl", "pairs.parquet", "environment.json"):
            (folder / name).unlink()
    assert "There is nothing to compare with" in parsed(write_report(folders)).text


@pytest.mark.usefixtures("quick")
def test_a_comparison_never_replaces_the_page_of_a_run(make_run):
    folders = [make_run("a"), make_run("b")]
    with pytest.raises(InputError, match="another file"):
        write_report(folders, out=folders[1])


@pytest.mark.usefixtures("quick")
def test_the_same_run_twice_is_one_run(make_run):
    folder = make_run("a")
    assert write_report([folder, folder / "." / ""]) == folder / "report.html"


@pytest.mark.parametrize("content", [None, "- just\n- a list\n", "a: [", b"\xff\xfe"])
def test_a_folder_that_is_not_a_run_is_refused_in_a_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "recipe.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as refusal:
        write_report(tmp_path)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "report.html").exists()


def test_no_run_at_all_is_refused():
    with pytest.raises(InputError, match="no run given"):
        write_report([])


def test_the_same_run_gives_the_same_page(make_run):
    folder = make_run(steps=5)
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_making_a_page_does_not_load_torch(make_run):
    code = (
        "import sys; from gapo.report import write_report; write_report(sys.argv[1]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(make_run(steps=3))], check=True, timeout=60)


@pytest.mark.usefixtures("quick")
def test_the_command_says_where_the_page_is(make_run):
    import typer
    from typer.testing import CliRunner

    from gapo.cli.report import report

    app = typer.Typer()
    app.command()(report)
    folder = make_run(steps=3)
    ran = CliRunner().invoke(app, [str(folder)])
    assert ran.exit_code == 0
    assert str(folder / "report.html") in ran.output.replace("\n", "")
    assert "gapo report runs/" in CliRunner().invoke(app, ["--help"]).output


def test_text_is_escaped_unless_it_is_markup():
    assert tag("p", "<b>", Markup("<i></i>"), class_='a"b') == '<p class="a&quot;b">&lt;b&gt;<i></i></p>'
    assert join(["a", None, ["<"]]) == "a&lt;"


def test_only_characters_that_act_are_spelled_out():
    assert visible("a\tb\n\u05d0 e\u0301 \u200d") == "a\tb\n\u05d0 e\u0301 \u200d"
    assert visible("\x1b[0m\x7f\x85\u2066\ufeff\uffff") == "[U+001B][0m[U+007F][U+0085][U+2066][U+FEFF][U+FFFF]"
