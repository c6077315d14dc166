"""What we stand on: declared where it is used, used where it is declared, and under licences that we can name."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gapo"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USED_BY_OTHERS = {"gguf"}  # transformers imports it to read the wheel's model
WEAK = {"MPL-2.0": {"tqdm"}}  # a change to a file of theirs would have to stay open; we change none
PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "PSF-2.0", "Unlicense", "Zlib",
}  # fmt: skip
SPDX = {
    "Apache Software License": "Apache-2.0", "Apache 2.0 License": "Apache-2.0", "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT", "BSD License": "BSD-3-Clause", "Python Software Foundation License": "PSF-2.0",
}  # fmt: skip


def bare(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")


NEEDED = {bare(one) for one in PROJECT["dependencies"]}
EXTRAS = {name: {bare(one) for one in all_of} for name, all_of in PROJECT["optional-dependencies"].items()}


def imports() -> dict[str, set[str]]:
    """Distributions that the source imports, each with its files."""
    known = packages_distributions()
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            for top in {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"gapo", ""}:
                found.setdefault(bare(known.get(top, [top])[0]), set()).add(str(path.relative_to(PACKAGE)))
    return found


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    imported = imports()
    assert NEEDED - set(imported) == USED_BY_OTHERS
    optional = set(imported) - NEEDED
    assert optional <= set.union(*EXTRAS.values()), {name: imported[name] for name in optional}
    assert optional == {"lm-eval", "trl"}
    assert len(NEEDED) <= 20  # few


def test_every_range_has_a_lower_end_and_the_fast_moving_an_upper_one():
    for one in PROJECT["dependencies"]:
        assert ">=" in one, one
        if bare(one) in ("torch", "transformers", "accelerate", "datasets", "peft", "huggingface-hub"):
            assert ",<" in one, one


def test_what_is_tested_with_is_pinned():
    pinned = {bare(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert pinned >= NEEDED
    lines = (ROOT / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[\w.-]+==[\w.+-]+", line) for line in lines)  # no address, no other index


def licences(name: str) -> set[str]:
    """What an installed package says of itself, as SPDX names."""
    about = metadata(name)
    if expression := about.get("License-Expression"):  # by [] a missing one is a deprecation since Python 3.12
        return set(re.split(r" (?:AND|OR) ", expression.strip("()")))
    classified = [each.split(" :: ")[-1] for each in about.get_all("Classifier", []) if each.startswith("License ::")]
    named = [SPDX[each] for each in classified if each in SPDX]
    plain = (about.get("License") or "").strip()
    return set(named) or set(re.split(r" (?:AND|OR) ", SPDX.get(plain, plain)))


def listed(heading: str) -> dict[str, list[str]]:
    """A table of the page, by package."""
    section = (ROOT / "docs" / "licences.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    place = rows[0].index("package")
    return {bare(row[place]): row[place + 1 :] for row in rows[2:]}


def test_the_page_of_licences_lists_what_pyproject_asks_for():
    assert set(listed("What gapo needs")) == NEEDED
    assert set(listed("What an extra adds")) == EXTRAS["qlora"] | EXTRAS["eval"]
    assert all(reason for _, reason in listed("What gapo needs").values())


@pytest.mark.parametrize("name", sorted(NEEDED | EXTRAS["eval"]))
def test_the_licence_on_the_page_is_the_packages_own_and_permissive(name):
    try:
        said = licences(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed here")
    written = set({**listed("What gapo needs"), **listed("What an extra adds")}[name][0].split(" AND "))
    assert written <= said
    assert said <= PERMISSIVE | {weak for weak, names in WEAK.items() if name in names}
