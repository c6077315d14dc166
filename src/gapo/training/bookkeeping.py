"""Everything a run writes down while it trains, hung on Trainer's callbacks."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from gapo.anchor.probe import GEOMETRY_COLUMNS, Geometry
from gapo.model.logps import PairLogps
from gapo.objectives import Slopes
from gapo.training.drift import DriftProbe
from gapo.training.finite import Suspects, check_gradient, check_losses
from gapo.training.metrics import accuracy
from gapo.training.monitors import Monitors
from gapo.training.progress import Display, NotebookBars, Nothing
from gapo.training.record import RunRecord
from gapo.training.state import read_drift, read_state, restore_log, restore_state
from gapo.training.step import AnchorReport, MicroBatch

if TYPE_CHECKING:
    from gapo.training.dataset import EncodedPairs
    from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")
LOGGED = ["margin", "gap_mean", "weight_mean", "self_check_ratio", "chosen_logp", "rejected_logp", "accuracy", "drift"]
LOGGED += ["audit_correlation", "audit_cosine"]


class Bookkeeping(TrainerCallback):
    """Collects a step's pairs, writes its line and rows, feeds the monitors, measures the drift."""

    def __init__(self, trainer: PreferenceTrainer) -> None:
        self._trainer = trainer
        self.record = RunRecord(Path(str(trainer.args.output_dir)))
        self.monitors = Monitors(logger.warning)
        self.grad_norm = 0.0
        self.ids: list[str] = []
        self._suspects = Suspects()
        self.show_on(NotebookBars())
        self.drift: DriftProbe | None = None
        self._since_log: list[dict[str, Any]] = []
        self._clock = self._began = time.monotonic()
        self.earlier = 0.0  # seconds of training before a resume
        self._state: dict[str, Any] | None = None  # of the checkpoint the run goes on from

    @staticmethod
    def of(trainer: PreferenceTrainer) -> Bookkeeping:
        """The books of a trainer, hung on its callbacks in the place of its own bar and printed lines."""
        trainer.remove_callback(ProgressCallback)
        trainer.remove_callback(PrinterCallback)
        books = Bookkeeping(trainer)
        trainer.add_callback(books)
        return books

    def show_on(self, display: Display) -> None:
        """From now on; unless the user turned bars off, and only where a run speaks."""
        silent = self._trainer.args.disable_tqdm or not self._trainer.ranks.first
        self.display: Display = Nothing() if silent else display

    # ---- the run ----

    def begin(self, checkpoint: str | None) -> None:
        """Before the first step, while the model is still the start model."""
        trainer = self._trainer
        probed = trainer.eval_dataset if _has_pairs(trainer.eval_dataset) else trainer.train_dataset
        count = min(trainer.args.drift_pairs, len(probed))
        kept = read_drift(checkpoint)
        self.drift = DriftProbe(trainer.model, probed.encoded[:count], trainer.pad_id, kept) if count else None
        self._state = read_state(checkpoint) if checkpoint else None
        self._since_log, self.earlier, self._began = [], 0.0, time.monotonic()
        if trainer.ranks.first:  # one process keeps the record of all
            self.record.start(after_step=self._state["step"] if self._state else 0)
        trainer.ranks.wait()
        if self._state:
            restore_state(trainer, self._state)

    def go_on(self, since_log: list[dict[str, Any]], seconds: float) -> None:
        """After a resume: the lines that no log has seen yet, and the time the run has taken so far."""
        self._since_log, self.earlier = since_log, seconds

    def seconds(self) -> float:
        """How long the run has trained, with what came before a resume."""
        return self.earlier + time.monotonic() - self._began

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._state:
            restore_log(self._trainer, self._state)
        self.display.begin(self._trainer.objective.name, state.max_steps, state.global_step)

    def finish(self) -> None:
        """After the last step, or after an error: everything on disk, no bar left open."""
        if self._trainer.ranks.first:
            self.record.write_pairs()
        self.display.end()

    # ---- a step ----

    def start_clock(self) -> None:
        """A step's time runs from its first forward to its update, without what lies between steps."""
        self._clock = time.monotonic()

    def new_step(self, rows: list[Tensor], report: AnchorReport | None, tokens: int) -> None:
        encoded = self._trainer.train_dataset.encoded
        self.ids = [encoded[int(i)].id for row in rows for i in row]
        self._suspects = Suspects()
        self._report, self._tokens = report, tokens
        self._parts: list[dict[str, Tensor]] = []
        self._flipped: list[bool | None] = [encoded[int(i)].flipped for row in rows for i in row]

    def add(self, rows: Tensor, policy: PairLogps, found: Slopes, part: MicroBatch) -> None:
        """One micro-batch of the step, as it was when its loss was taken."""
        nothing = torch.full_like(policy.chosen, float("nan"))
        gap = part.gap if part.gap is not None else nothing
        reference = part.needs.get("reference")
        relative = self._trainer.objective.reward.relative
        gain = self._trainer.objective.reward.gain(policy, reference if relative else None)  # type: ignore[arg-type]
        own = [policy.chosen, policy.rejected, gain, *([part.gap] if part.gap is not None else [])]
        self.look(rows, own, found.loss, part.geometry.grad_norm if part.geometry is not None else None)
        self._parts.append(
            {
                "margin": policy.margin,
                "anchor_margin": policy.margin - gap if "anchor" in part.needs else nothing,
                "gap": gap,
                "weight": found.weight,
                "loss": found.loss,
                "chosen_tokens": policy.chosen_tokens,
                "rejected_tokens": policy.rejected_tokens,
                "chosen_logp": policy.chosen,
                "rejected_logp": policy.rejected,
                "gain": gain,
                "consensus": part.alignment.to(nothing) if part.alignment is not None else nothing,
                "wrong": part.needs.get("wrong", nothing),  # type: ignore[dict-item]
                **{name: _column(part.geometry, name, nothing) for name in GEOMETRY_COLUMNS},
            }
        )

    def look(self, rows: Tensor, own: Sequence[Tensor], loss: Tensor, norms: Tensor | None = None) -> None:
        """For numbers that are not finite, at the pairs of a micro-batch."""
        encoded = self._trainer.train_dataset.encoded
        self._suspects.look([encoded[int(i)].id for i in rows], own, loss, norms)

    def check_pairs(self) -> None:
        """Stop if a pair of the step, or the direction to its anchor, is not finite."""
        trainer = self._trainer
        check_losses(self._suspects, trainer.model, trainer.state.global_step + 1, trainer.ranks)
        if self._report is not None:
            self.check_norm(self._report.direction_norm, "the margin's gradient")

    def check_norm(self, norm: float, what: str) -> None:
        """Stop if a gradient of the step is not finite."""
        trainer = self._trainer
        check_gradient(norm, what, self._suspects, self.ids, trainer.state.global_step + 1, trainer.ranks)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.come_home()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._learning_rate = self._trainer._get_learning_rate()  # before the scheduler moves it

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        columns, ids, flipped, tokens = self._of_all_ranks()
        line = self._line(state, columns, tokens)
        self._since_log.append(line)
        if not self._trainer.ranks.first:
            return
        gain = columns.pop("gain")
        rows: dict[str, list[Any]] = {key: _nullable(column) for key, column in columns.items()}
        rows |= {"step": [state.global_step] * len(gain), "epoch": [state.epoch] * len(gain)}
        rows |= {"pair_id": ids, "flipped": flipped}
        self.record.add(line, rows)
        self.monitors.step(line)
        self.display.step(line)

    def _of_all_ranks(self) -> tuple[dict[str, Tensor], list[str], list[bool | None], int]:
        """The step's columns, ids, flips and tokens, its micro-batches one after the other whoever had them."""
        columns = {key: torch.cat([part[key] for part in self._parts]).cpu() for key in self._parts[0]}
        sizes = [len(part["margin"]) for part in self._parts]
        ranks = self._trainer.ranks
        if ranks.alone:
            return columns, self.ids, self._flipped, self._tokens
        every = ranks.gather_objects((columns, list(zip(self.ids, self._flipped, strict=True)), sizes, self._tokens))
        micro_batch = [k for one in every for k, size in enumerate(one[2]) for _ in range(size)]
        order = sorted(range(len(micro_batch)), key=micro_batch.__getitem__)  # stable: ranks stay in their order
        joined = {key: torch.cat([one[0][key] for one in every])[order] for key in columns}
        names = [name for one in every for name in one[1]]
        ids, flipped = [names[i][0] for i in order], [names[i][1] for i in order]
        return joined, ids, flipped, sum(one[3] for one in every)

    def _line(self, state: Any, columns: dict[str, Tensor], tokens: int) -> dict[str, Any]:
        now = time.monotonic()
        seconds = now - self._clock
        step, report = state.global_step, self._report
        due = step in (1, state.max_steps) or step % max(int(state.logging_steps or 1), 1) == 0
        gap, weight = columns["gap"].double(), columns["weight"].double()
        anchored = not bool(gap.isnan().all())
        mixture = self._trainer.plan.mixture
        return {
            "step": step,
            "epoch": state.epoch,
            "loss": float(columns["loss"].double().mean()),
            "margin": float(columns["margin"].double().mean()),
            "gap_mean": float(gap.mean()) if anchored else None,
            "gap_std": float(gap.std(correction=0)) if anchored else None,
            "weight_mean": float(weight.mean()),
            "weight_std": float(weight.std(correction=0)),
            "weight_min": float(weight.min()),
            "weight_max": float(weight.max()),
            "self_check_ratio": report.ratio if report else None,
            "direction_norm": report.direction_norm if report else None,
            "moved": report.moved if report else None,
            "audit_correlation": report.audit_correlation if report else None,
            "audit_cosine": report.audit_cosine if report else None,
            "noise_rate": mixture.rate if mixture is not None else None,
            "separation": mixture.separation if mixture is not None else None,
            "direction_pairs": mixture.pairs if mixture is not None else None,
            "chosen_logp": float((columns["chosen_logp"] / columns["chosen_tokens"]).double().mean()),
            "rejected_logp": float((columns["rejected_logp"] / columns["rejected_tokens"]).double().mean()),
            "accuracy": accuracy(columns["gain"]),
            "drift": self.drift.measure(self._trainer.model) if self.drift and due else None,
            "grad_norm": self.grad_norm,
            "tokens_per_second": tokens / seconds if seconds > 0 else None,
            "learning_rate": self._learning_rate,
        }

    # ---- between steps ----

    def means_since_last_log(self) -> dict[str, float]:
        """Means of the steps since the last line in the log, for trackers."""
        lines, self._since_log = self._since_log, []
        means = {}
        for key in LOGGED:
            values = [line[key] for line in lines if line[key] is not None]
            if values:
                means[key] = sum(values) / len(values)
        return means

    def sample_replies(self, pairs: EncodedPairs) -> None:
        """Answer a few prompts and look for repetition."""
        count = min(self._trainer.args.reply_prompts, len(pairs))
        if pairs.pairs is None or not count or not self._trainer.is_in_train:
            return
        answers = self._trainer.replies([pair.prompt for pair in pairs.pairs[:count]])
        if self._trainer.ranks.first:
            self.monitors.replies(self._trainer.state.global_step, answers)

    def progress(self, description: str) -> Callable[[Iterable[Any]], Iterable[Any]]:
        """Batches with the display beside them."""
        return lambda batches: self.display.over(description, batches)


def _column(geometry: Geometry | None, name: str, nothing: Tensor) -> Tensor:
    return getattr(geometry, name).to(nothing.device, torch.float64) if geometry is not None else nothing


def _has_pairs(dataset: Any) -> bool:
    return dataset is not None and hasattr(dataset, "encoded")


def _nullable(column: Tensor) -> list[Any]:
    """A column with None for what was not measured."""
    if not column.is_floating_point():
        return column.tolist()
    return [None if math.isnan(value) else value for value in column.double().tolist()]
