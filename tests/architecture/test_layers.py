"""The house keeps its shape: imports go one way, files stay readable, words stay ours."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gapo"
LAYERS = [
    "pairs",
    "model",
    "objectives",
    "anchor",
    "consensus",
    "training",
    "diagnostics",
    "evaluate",
    "lab",
    "runs",
    "studies",
    "report",
    "bench",
    "cli",
]
GROUND = {"errors", "signals", "storage"}  # everything may stand on these
SOURCES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gapo":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("gapo.")}
    return found - GROUND


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_left(path):
    layer = layer_of(path)
    if layer in ("__init__", "__main__"):
        return
    if layer in GROUND:
        assert not imported_layers(path)
        return
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    assert imported_layers(path) - {"__version__"} <= set(allowed)


def test_every_folder_has_its_place():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= set(LAYERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_can_be_read_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 300
    assert path.stem not in ("utils", "misc", "common", "helpers")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_says_what_it_is_for(path):
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_only_perturb_and_the_optimiser_move_parameters():
    """Nothing writes into a parameter, and one file points parameters to other storage. (`load` casts adapters.)"""
    texts = {path.name: path.read_text() for path in SOURCES}
    assert not [name for name, text in texts.items() if ".copy_(" in text or ".add_(" in text]
    assert sorted(name for name, text in texts.items() if ".data = " in text) == ["load.py", "perturb.py"]


def test_the_public_names_are_there():
    import gapo

    for name in gapo.__all__:
        assert getattr(gapo, name) is not None
    with pytest.raises(AttributeError):
        gapo.nothing  # noqa: B018
