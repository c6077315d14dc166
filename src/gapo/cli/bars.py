"""The bars of a terminal: name, bar, parts done, time left; below them the numbers worth seeing."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

NARROW = 70  # columns below which a bar gets what is left


class Bars:
    """Several bars in one place, which is there while one of them is open."""

    def __init__(self, console: Console) -> None:
        self._shown = _Shown(
            TextColumn("[bold]{task.description}"),
            BarColumn(None if console.width < NARROW else 40, complete_style="cyan", finished_style="cyan"),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[left]}", style="dim"),
            console=console,
            transient=True,
            redirect_stdout=False,  # results are not mixed with bars, and a pipe must get them as they are
        )

    def open(self, name: str, total: int, done: int) -> TaskID:
        task = self._shown.add_task(name, total=total, completed=done, left="", words="")
        self._shown.start()
        return task

    def move(self, task: TaskID, done: int, words: str, left: str) -> None:
        self._shown.update(task, completed=done, words=words, left=left)

    def close(self, task: TaskID) -> bool:
        """Take the bar away; whether it was the last."""
        self._shown.remove_task(task)
        if self._shown.tasks:
            return False
        self._shown.stop()
        return True


class _Shown(Progress):
    """Rich's bars, and under each its words in a line of their own: beside the bar they would not fit 60 columns."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield self.make_tasks_table([task])
            if words := task.fields["words"]:
                yield Text(words, no_wrap=True, overflow="ellipsis")
