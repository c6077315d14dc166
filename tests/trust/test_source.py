"""The source itself: ways to run what somebody else has written are not in it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "gapo"
SOURCES = sorted(PACKAGE.rglob("*.py"))
RESTRICTED = "training/shard_metadata.py"  # an Unpickler that knows a dozen names of torch's metadata and nothing else
FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pty.spawn",
    "yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load",
    "pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "shelve.open", "joblib.load",
    "numpy.load", "np.load", "pandas.read_pickle", "pd.read_pickle", "shutil.unpack_archive", "tempfile.mktemp",
}  # fmt: skip
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "tarfile", "telnetlib"}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(source: str, path: str = "") -> list[str]:
    """What a file does that it must not, with its lines."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [(node.lineno, name) for name in names if name.split(".")[0] in FORBIDDEN_IMPORTS]
            if "zipfile" in names and path != "pairs/archives.py":
                found.append((node.lineno, "zipfile: archives are opened by pairs/archives.py"))
        if not isinstance(node, ast.Call):
            continue
        name, options = dotted(node.func), {word.arg: word.value for word in node.keywords}
        if name in FORBIDDEN or name.endswith((".extractall", ".extract")):
            found.append((node.lineno, name))
        if name.endswith("torch.load") and not _is(options.get("weights_only"), True):
            found.append((node.lineno, "torch.load without weights_only=True"))
        if "shell" in options and not _is(options["shell"], False):
            found.append((node.lineno, "shell"))
        if _is(options.get("trust_remote_code"), True):
            found.append((node.lineno, "trust_remote_code=True"))
        said = {"trust_remote_code", None} & set(options)  # None is **options; unsaid, transformers would ask the user
        if name.startswith("Auto") and name.endswith(".from_pretrained") and not said:
            found.append((node.lineno, "trust_remote_code is not said"))
    return [f"{path}:{line} {what}" for line, what in sorted(found) if (path, what) != (RESTRICTED, "pickle")]


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_nothing_in_the_source_runs_what_it_reads():
    assert len(SOURCES) > 300
    assert not [fault for path in SOURCES for fault in faults(path.read_text(), str(path.relative_to(PACKAGE)))]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from dill import loads", "x = eval('1')", "import os\nos.system('ls')", "yaml.load(text)",
        "torch.load(path)", "torch.load(path, weights_only=False)", "subprocess.run('ls', shell=True)",
        "load(trust_remote_code=True)", "AutoConfig.from_pretrained(name)", "np.load(path, allow_pickle=True)",
        "import zipfile", "archive.extractall(here)",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_is_for(source):
    assert faults(source)


def test_the_one_unpickler_is_restricted():
    tree = ast.parse((PACKAGE / RESTRICTED).read_text())
    used = {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for name in used if name.startswith("pickle.")} == {"pickle.Unpickler", "pickle.UnpicklingError"}
