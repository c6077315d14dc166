"""A long run takes no more memory than a short one, and its record is what its checkpoints say it is.

GAPO_LONG=1 pytest tests/long -s -n 0      # 20,000 steps on the lab; the ordinary suite takes 60
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, TrainerCallback

import gapo
import literal
import tiny
from gapo.anchor.banked import Bank
from gapo.anchor.settings import AnchorSettings
from gapo.pairs.collate import collate
from gapo.training.record import read_steps
from runs_of_tests import trainer
from steps import step_gradient

STEPS = 20_000 if os.environ.get("GAPO_LONG") else 60
SAMPLES = 100  # of memory
ENDS = (STEPS // 4, STEPS // 2, 3 * STEPS // 4, STEPS - 1)  # checkpoints, each followed by a step
FLAT = 1024  # KiB in 1,000 steps, over the last three quarters
RADIUS = 0.05


class Watch(TrainerCallback):
    """Samples the memory in use, and asks for checkpoints."""

    def __init__(self) -> None:
        self.memory: list[tuple[int, int]] = []  # step, KiB

    def on_step_end(self, args, state, control, **_):
        if state.global_step % max(1, STEPS // SAMPLES) == 0:
            self.memory.append((state.global_step, resident_kib()))
            say(step=state.global_step, kib=self.memory[-1][1])
        control.should_save = state.global_step in ENDS


def resident_kib() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1))


@dataclass(frozen=True)
class LongRun:
    """What the run left behind, with its trainer."""

    folder: Path
    trainer: gapo.PreferenceTrainer
    memory: np.ndarray
    seconds: float

    def lines(self) -> list[dict]:
        return read_steps(self.folder / "steps.jsonl")

    def rows(self, step: int) -> dict[str, list]:
        return pq.read_table(self.folder / "pairs.parquet", filters=[("step", "=", step)]).to_pydict()

    def pairs(self, step: int) -> list:
        by_id = {pair.id: pair for pair in self.trainer.train_dataset.encoded}
        return [by_id[name] for name in self.rows(step)["pair_id"]]

    def model(self, step: int):
        """A new model with the weights of a checkpoint."""
        return AutoModelForCausalLM.from_pretrained(self.folder / "checkpoints" / f"checkpoint-{step}").train(False)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory) -> LongRun:
    """Four pairs a step of the lab's 3,200, a fifth of the labels wrong; slow, so that it stays healthy to the end."""
    folder = tmp_path_factory.mktemp("long")
    noisy, _ = gapo.flip(gapo.load_pairs("lab"), 0.2, seed=0)
    policy, watch = gapo.load_policy("lab"), Watch()
    run = trainer(
        folder,
        noisy,
        model=policy.model,
        tokenizer=policy.tokenizer,
        anchor_engine="bank",
        anchor_radius=RADIUS,
        max_steps=STEPS,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        logging_steps=100,
        extra_callbacks=[watch],
    )
    begun = time.monotonic()
    run.train()
    return LongRun(folder, run, np.array(watch.memory), time.monotonic() - begun)


@pytest.mark.skipif(STEPS < 20_000, reason="GAPO_LONG=1 takes 20,000 steps")
@pytest.mark.timeout(0)
def test_memory_is_flat_over_twenty_thousand_steps(long_run):
    later = long_run.memory[len(long_run.memory) // 4 :]
    slope = np.polyfit(later[:, 0] / 1000, later[:, 1], 1)[0]
    first, last = long_run.memory[0, 1], long_run.memory[-1, 1]
    say(seconds=long_run.seconds, first_mib=first / 1024, last_mib=last / 1024, kib_in_1000_steps=slope)
    assert slope < FLAT


def test_every_step_and_pair_is_in_the_record_and_they_agree(long_run):
    table = pq.read_table(long_run.folder / "pairs.parquet").to_pydict()
    lines = long_run.lines()
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert table["step"] == [step for step in range(1, STEPS + 1) for _ in range(4)]
    columns = {"loss": "loss", "margin": "margin", "gap": "gap_mean", "weight": "weight_mean"}
    for column, line in columns.items():
        means = np.array(table[column]).reshape(-1, 4).mean(1)
        apart = np.abs(means - [one[line] for one in lines]).max()
        say(**{f"{column}_of_lines_and_rows": apart})
        assert apart < 1e-12  # means of the same numbers, in float64
    weight = 2.5 / (1 + np.exp(2.5 * np.array(table["gap"]) - 0.1))
    say(weight_from_gap=np.abs(weight - table["weight"]).max())
    assert np.allclose(weight, table["weight"], rtol=0, atol=1e-6)  # the record's is that of fp32
    assert all(np.isfinite(table[column]).all() for column in ("margin", "anchor_margin", "gap", "weight", "loss"))


@pytest.mark.parametrize("step", ENDS)
def test_the_step_after_a_checkpoint_is_in_the_record_as_it_is_computed_anew(long_run, step):
    """Bit for bit: a new model with the weights read from the disk, a new engine, the pairs collated again."""
    rows, run = long_run.rows(step + 1), long_run.trainer
    batch = collate(long_run.pairs(step + 1), run.pad_id, shared=run.layout.shared)
    engine = Bank(AnchorSettings(radius=RADIUS))
    _, gradient, (part,) = step_gradient(long_run.model(step), run.objective, engine.settings, [batch], engine)
    anew = {"margin": part.policy.margin, "gap": part.gap, "weight": part.known.weight, "loss": part.known.loss}
    anew |= {"anchor_margin": part.policy.margin - part.gap}
    anew |= {"chosen_logp": part.policy.chosen, "rejected_logp": part.policy.rejected}
    for column, values in anew.items():
        assert rows[column] == values.double().tolist(), column
    norm, recorded = float(torch.nn.utils.get_total_norm(gradient)), long_run.lines()[step]["grad_norm"]
    say(step=step + 1, grad_norm=recorded, grad_norm_apart=abs(norm - recorded))
    assert recorded == pytest.approx(norm, rel=1e-6)


@pytest.mark.parametrize("step", ENDS)
def test_the_record_is_what_the_paper_says_in_float64(long_run, step):
    """A literal loop over pairs and tokens, which shares nothing with the package: what is left is fp32's rounding."""
    rows, pairs = long_run.rows(step + 1), long_run.pairs(step + 1)
    model = long_run.model(step).double()
    tiny.keep_double(model)
    margins = torch.stack([literal.margin(model, pair) for pair in pairs]).detach()
    gaps = torch.stack(literal.gaps(model, pairs, RADIUS)).detach()
    weights = 2.5 * torch.sigmoid(0.1 - 2.5 * gaps)
    truth = {"margin": margins, "anchor_margin": margins - gaps, "gap": gaps, "weight": weights}
    apart = {key: float((torch.tensor(rows[key]) - values).abs().max()) for key, values in truth.items()}
    say(step=step + 1, **apart)
    assert max(apart.values()) < 5e-6


def say(**figures) -> None:
    """With `pytest -s`."""
    rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in figures.items()}
    print(json.dumps(rounded), flush=True)
