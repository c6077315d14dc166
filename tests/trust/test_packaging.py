"""What is handed out: a wheel with all that a run needs, a source archive that makes the same wheel, and no more."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling import build; build.build_{kind}(sys.argv[1])"

pytest.importorskip("hatchling", reason="hatchling is not installed; it builds the wheel without a network")


def built(kind: str, source: Path, out: Path) -> Path:
    """As `python -m build` does it, in a process of its own and without fetching anything."""
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", BUILD.format(kind=kind), str(out)], cwd=source, check=True, capture_output=True
    )
    [path] = out.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    return zipfile.ZipFile(built("wheel", ROOT, tmp_path_factory.mktemp("wheel") / "dist"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """The source archive, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", ROOT, folder / "dist")) as archive:
        archive.extractall(folder, filter="data")
    [unpacked] = (path for path in folder.iterdir() if path.name != "dist")
    return unpacked


def test_the_wheel_holds_the_package_its_data_and_its_recipes(wheel):
    names = set(wheel.namelist())
    source = ROOT / "src" / "gapo"
    files = {f"gapo/{path.relative_to(source)}" for path in source.rglob("*") if path.is_file()}
    recipes = {f"gapo/{path.relative_to(ROOT)}" for path in (ROOT / "recipes").rglob("*") if path.is_file()}
    expected = {name for name in files | recipes if "__pycache__" not in name}
    beside = {name for name in names if ".dist-info/" in name}
    assert names - beside == expected
    assert {"gapo/py.typed", "gapo/recipes/mini.yaml", "gapo/report/assets/explorer/explorer.css"} <= names
    assert {Path(name).name for name in beside} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE"}
    assert sum(member.file_size for member in wheel.infolist()) < 10e6


def test_the_wheel_says_what_it_is(wheel):
    [name] = (name for name in wheel.namelist() if name.endswith("METADATA"))
    about = email.message_from_bytes(wheel.read(name))
    assert about["Name"] == "gapo"
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Description-Content-Type"] == "text/markdown"
    needed = about.get_all("Requires-Dist")
    assert not [one for one in needed if "@" in one]  # nothing from an address
    assert b"gapo = gapo.cli.main:main" in wheel.read(name.replace("METADATA", "entry_points.txt"))


def test_neither_holds_results_runs_or_traces_of_a_machine(wheel, sdist):
    names = wheel.namelist() + [str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()]
    strange = re.compile(
        r"^(results|runs|site|dist)/|(^|/)(\.venv|\.git|__pycache__|\.pytest_cache|\.hypothesis)/|\.pyc$|\.whl$"
    )
    assert not [name for name in names if strange.search(name)]
    assert not [name for name in wheel.namelist() if name.startswith(("tests/", "docs/", "gapo/tests"))]
    assert {"SECURITY.md", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= set(names)


def test_the_source_archive_makes_the_same_wheel(wheel, sdist, tmp_path):
    again = zipfile.ZipFile(built("wheel", sdist, tmp_path / "dist"))
    assert set(again.namelist()) == set(wheel.namelist())
    for name in wheel.namelist():
        assert again.read(name) == wheel.read(name), name
