"""A task of a study whose process is killed from outside, as a system does that has no memory left."""

import os
import signal
from pathlib import Path
from typing import Any


def die(task: Any, root: Path) -> dict[str, float]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}
