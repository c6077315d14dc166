"""Files that grow a line at a time, so that an interrupted bench loses nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.storage import add_line, on_disk, whole_file
from gapo.training.record import read_steps


@dataclass(frozen=True)
class Lines:
    """A JSON-lines file; a new bench begins it anew."""

    path: Path

    def begin(self) -> Lines:
        with whole_file(self.path) as part:
            part.write_text("")
        return self

    def add(self, **values: Any) -> None:
        add_line(self.path, json.dumps({key: _short(value) for key, value in values.items()}))
        on_disk(self.path)

    def read(self) -> list[dict[str, Any]]:
        """Whole lines; the last may have been cut short."""
        return read_steps(self.path)


def _short(value: Any) -> Any:
    """Seven places are more than a clock tells."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
