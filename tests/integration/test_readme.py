"""What the README lists exists; what it shows is run in test_docs.py."""

import re
from pathlib import Path

from gapo.objectives import objectives
from gapo.report.front_page import blocks
from gapo.runs.computed import filled

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_table_has_every_objective_with_its_knobs():
    rows = dict(
        re.findall(
            r"^\| `(\w+)` \|.*\| ([^|]*) \|$",
            README.split("<!-- objectives -->")[1].split("<!-- end -->")[0],
            flags=re.M,
        )
    )
    for name, objective in objectives().items():
        assert rows[name] == ", ".join(f"{knob} {value}" for knob, value in objective.knobs.items()), name
    assert set(rows) == set(objectives())


def test_results_of_a_real_model_are_those_of_its_pages():
    assert "<!-- computed: real -->" in README
    assert filled(README, blocks(ROOT / "README.md")) == README, "run: python -m gapo.report.front_page README.md"


def test_the_file_map_is_the_tree():
    listed = re.search(r"src/gapo/\n((?:  .*\n)+)", README).group(1)
    named = set(re.findall(r"^  (\w+)/", listed, flags=re.M))
    folders = {p.name for p in (ROOT / "src" / "gapo").iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert named == folders
    for folder in re.findall(r"^(\w+)/", README.split("Where things are")[1], flags=re.M):
        assert (ROOT / folder).is_dir()


def test_make_targets_shown_exist():
    makefile = (ROOT / "Makefile").read_text()
    for targets in re.findall(r"make ([a-z -]+?)(?=[`\s]*(?:#|`|$))", README, flags=re.M):
        for target in targets.split():
            assert re.search(rf"^{target}:", makefile, flags=re.M), target
