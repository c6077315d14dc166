"""What a run shows while it works. Whoever starts it may look in another way: a command, a notebook, nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tqdm.auto import tqdm


class Display(Protocol):
    """Told of every step, and asked to stand by other work on batches (evaluation, reference log-probs)."""

    def begin(self, name: str, total: int, done: int) -> None: ...

    def step(self, line: Mapping[str, Any]) -> None:
        """A line of `steps.jsonl`."""

    def end(self) -> None:
        """After the last step or an error; may come twice, and without a beginning."""

    def over(self, name: str, batches: Iterable[Any]) -> Iterable[Any]: ...


class Nothing:
    """For processes that do not speak, and where bars are off."""

    def begin(self, name: str, total: int, done: int) -> None:
        pass

    def step(self, line: Mapping[str, Any]) -> None:
        pass

    def end(self) -> None:
        pass

    def over(self, name: str, batches: Iterable[Any]) -> Iterable[Any]:
        return batches


class NotebookBars(Nothing):
    """tqdm's bars, which draw themselves in notebooks too: for whoever calls the trainer from Python."""

    def __init__(self) -> None:
        self._bar: Any = None

    def begin(self, name: str, total: int, done: int) -> None:
        self._bar = tqdm(total=total, initial=done, desc=name, unit="step", dynamic_ncols=True)

    def step(self, line: Mapping[str, Any]) -> None:
        shown = {"loss": f"{line['loss']:.2f}", "acc": f"{line['accuracy']:.2f}"}
        if line["gap_mean"] is not None:
            shown["gap"] = f"{line['gap_mean']:.2f}"
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(1)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def over(self, name: str, batches: Iterable[Any]) -> Iterable[Any]:
        return tqdm(batches, desc=name, leave=False, dynamic_ncols=True)
