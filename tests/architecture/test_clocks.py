"""Durations are taken from a clock that cannot be set back."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "gapo"
ON_THE_WALL = {  # where the time of day is meant, or that of files
    "evaluate/answers.py": "a stamp that an official file has",
    "pairs/store.py": "whether a file changed a moment ago; if the clock was set back, it is read again",
    "pairs/store_folder.py": "how old a half-written store is; if the clock was set back, it stays",
    "report/standing.py": "how old the files of a run are; never less than 0, and held against what was seen",
}


def test_only_these_look_at_the_clock_on_the_wall():
    looks = re.compile(r"\btime\.time\(|\bfrom time import .*\btime\b|datetime\.now\(\)|\.utcnow\(")
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if looks.search(path.read_text())}
    assert found == set(ON_THE_WALL)
