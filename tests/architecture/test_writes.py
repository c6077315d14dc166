"""Everything is written whole or not at all: the list of all writes, and why each of the others is safe."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "gapo"
SOURCES = sorted(PACKAGE.rglob("*.py"))
WHOLE = {"whole_file", "whole_folder", "TemporaryDirectory"}  # what is below these has no name yet
NAMED = {"write_text", "write_bytes", "save_pretrained", "save_file", "ParquetWriter", "write_table", "savefig"}
NAMED |= {"to_csv", "to_parquet", "to_json", "tofile", "savez", "savetxt", "symlink_to", "touch", "save_model"}
NAMED |= {"copy2", "copyfile", "copytree", "hardlink_to", "extract", "extractall", "rename", "add_line"}
OF_MODULE = {("np", "save"), ("torch", "save"), ("json", "dump"), ("yaml", "dump"), ("shutil", "copy"), ("os", "open")}
OF_MODULE |= {("shutil", "move"), ("os", "replace")}
# A write outside `whole_file` and `whole_folder`, and why a kill or a full disk in the middle of it does no harm.
SAFE = {
    "storage.py whole_file": "the one place: a new name, then a rename",
    "storage.py take_the_place": "the same for folders",
    "storage.py add_line": "a log that only grows: a line cut short is skipped by its reader and spoils no other",
    "training/record.py RunRecord.add": "a step's line; a resume cuts the log to its checkpoint",
    "studies/times.py Times.keep": "a line of seconds: a help for estimates",
    "bench/records.py Lines.add": "a line of the bench, on the disk before the next is measured",
    "evaluate/verdict_cache.py VerdictCache.put": "one write, with a checksum, between line breaks of its own",
    "evaluate/partial.py Partial.keep": "a log of answers, each line with a checksum; the answers' file is whole",
    "runs/alive.py _taken": "the lock: who holds it is a help, the lock itself is the system's",
    "training/record.py _set_aside": "a rename of an earlier run's whole file",
    "training/checkpoints.py set_aside": "a rename of an earlier run's checkpoints",
    "training/state.py write_state": "in a checkpoint, which counts only with its list, written last",
    "training/resumable.py ResumableTrainer._save_checkpoint": "in a checkpoint, which counts only with its list",
    "training/shard.py ShardingTrainer.save_model": "Trainer's own; ours goes to a folder without a name yet",
    "training/resumable.py ResumableTrainer.save_model": "the same, once the weights were looked at",
    "runs/run.py _save_model": "other ranks write nothing; the first is inside whole_folder",
    "pairs/store_folder.py StoreWriter.column": "in a store that has no name until `publish`",
    "pairs/store_folder.py StoreWriter.finish": "in a store that has no name until `publish`",
    "pairs/store_folder.py publish": "the rename that makes it a store",
    "pairs/originals.py _opened": "to the part of a whole_file, see save_originals",
    "pairs/originals.py _copy_parquet": "to the part of a whole_file, see save_originals",
    "pairs/originals.py _write_parquet": "to the part of a whole_file, see save_originals",
    "pairs/writers.py write_parquet": "to the part of a whole_file, see save_pairs",
    "model/merge.py save_merged": "where the caller says, as save_pretrained; a run gives a folder without a name yet",
    "model/wheel.py _convert": "to the part of a whole_folder, see model_from_wheel",
    "bench/synthetic.py write_rows": "in a temporary folder of the bench",
    "bench/synthetic.py write_model": "in a temporary folder of the bench",
    "report/svg.py inline_svg": "into memory",
    "cli/launch.py _was_said": "an empty file in a temporary folder: its name is all it says",
    "cli/background.py in_background": "what a process says, as it says it: a log that only grows",
    "cli/main.py main": "nowhere: the reader of our output has left",
}


class Writes(ast.NodeVisitor):
    """Every call that may write to a disk, outside of `WHOLE`, by the function it stands in."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.below = 0  # how many of WHOLE are open here
        self.found: dict[str, list[int]] = {}
        self.whole = 0

    def _function(self, node: ast.AST) -> None:
        self.inside.append(node.name)
        self.generic_visit(node)
        self.inside.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _function  # noqa: N815

    def visit_With(self, node: ast.With) -> None:
        opened = sum(
            isinstance(item.context_expr, ast.Call) and called(item.context_expr) in WHOLE for item in node.items
        )
        self.below += opened
        self.generic_visit(node)
        self.below -= opened

    def visit_Call(self, node: ast.Call) -> None:
        if is_write(node):
            if self.below:
                self.whole += 1
            else:
                self.found.setdefault(".".join(self.inside), []).append(node.lineno)
        self.generic_visit(node)


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_write(call: ast.Call) -> bool:
    name = called(call)
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        if (call.func.value.id, name) in OF_MODULE:
            return not any("O_RDONLY" in ast.unparse(argument) for argument in call.args)
        if (call.func.value.id, name) == ("webbrowser", "open"):
            return False
    if name == "open":
        return any(set(mode) & set("wax+") for mode in modes(call))
    return name in NAMED or (name == "replace" and len(call.args) == 1 and not call.keywords)


def modes(call: ast.Call) -> list[str]:
    """Arguments that may be the mode: short constants of its letters."""
    constants = [arg.value for arg in [*call.args, *(k.value for k in call.keywords)] if isinstance(arg, ast.Constant)]
    return [text for text in constants if isinstance(text, str) and text and set(text) <= set("rwaxbt+")]


def writes_of(path: Path) -> Writes:
    visitor = Writes()
    visitor.visit(ast.parse(path.read_text()))
    return visitor


def test_every_write_is_whole_or_has_a_reason():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()} {place}": lines
        for path in SOURCES
        for place, lines in writes_of(path).found.items()
    }
    assert {place: lines for place, lines in found.items() if place not in SAFE} == {}
    assert sorted(set(SAFE) - set(found)) == [], "no longer written: take it off the list"
    assert sum(writes_of(path).whole for path in SOURCES) > 30  # the reader above still sees what it should


@pytest.mark.parametrize(
    "line",
    [
        "open(path, 'w')",
        "path.open('ab')",
        "path.open(mode='x')",
        "path.write_text('')",
        "json.dump({}, file)",
        "torch.save(state, path)",
        "save_file(tensors, path)",
        "model.save_pretrained(path)",
        "pq.write_table(table, path)",
        "os.open(path, os.O_WRONLY)",
        "part.replace(path)",
    ],
)
def test_a_write_is_seen(line):
    seen = Writes()
    seen.visit(ast.parse(f"def somewhere():\n    {line}\n"))
    assert seen.found == {"somewhere": [2]}
    seen = Writes()
    seen.visit(ast.parse(f"with whole_file(path) as part:\n    {line}\n"))
    assert (seen.found, seen.whole) == ({}, 1)


@pytest.mark.parametrize("line", ["open(path, 'rb')", "path.open()", "text.replace('a', 'b')", "webbrowser.open(url)"])
def test_what_only_reads_is_no_write(line):
    seen = Writes()
    seen.visit(ast.parse(line))
    assert not seen.found
