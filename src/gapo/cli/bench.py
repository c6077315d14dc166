"""`gapo bench`: how fast a step is, beside TRL's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gapo.cli.leaving import may_leave


def bench(
    model: Annotated[str | None, typer.Option(help="Any model gapo loads; else smollm2-135m-instruct.")] = None,
    data: Annotated[str | None, typer.Option(help="Any pairs gapo reads; else Anthropic HH, or courtesy.")] = None,
    pairs: Annotated[
        str | None, typer.Option(help="Pairs of one step: the first of the file; else 32. With --scale: sizes.")
    ] = None,
    micro_batch: Annotated[int, typer.Option(help="Pairs of a micro-batch.")] = 4,
    repetitions: Annotated[int | None, typer.Option(help="Steps timed of every variant; else 5.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, or mixed: fp32 weights, bf16 arithmetic.")] = "fp32",
    variants: Annotated[str | None, typer.Option(help="Names with commas: trl-simpo,simpo,...; else all.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; else results/bench.")] = None,
    speed: Annotated[bool, typer.Option(help="Time the steps.")] = True,
    memory: Annotated[bool | None, typer.Option(help="Peak memory, a process a variant; not in --quick.")] = None,
    growth: Annotated[bool, typer.Option(help="How time grows with lengths, pairs and model.")] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Instead: seconds to the first step and memory at 10k, 100k, 1M pairs.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="The lab model, 8 pairs, 2 repetitions: a try.")] = False,
) -> None:
    """Measure one optimiser step of TRL and gapo on the same pairs: time, memory, share of the machine's peak.

    Every measurement is written as it ends; table, figure and summary follow each repetition.

    Examples:

      gapo bench --quick

      gapo bench --growth --out results/bench

      gapo bench --scale --pairs 10000,100000
    """
    if scale:
        _scale(pairs, out or Path("results", "bench"))
        return
    from gapo.bench.run import run_bench
    from gapo.bench.setting import Setting
    from gapo.errors import InputError

    memory = memory if memory is not None else not quick
    if not (speed or memory or growth):
        raise InputError("nothing is left to measure; leave out --no-speed or --no-memory, or add --growth")
    setting = Setting(
        model=model or ("lab" if quick else "smollm2-135m-instruct"),
        data=data or ("lab" if quick else None),
        pairs=_number(pairs) if pairs is not None else (8 if quick else 32),
        micro_batch=micro_batch,
        precision=precision,
    )
    folder = out or Path("results", "bench-quick" if quick else "bench")  # a try must not replace a result
    with may_leave(lambda _: f"interrupted; what was measured is in {folder}"), _quiet():
        results = run_bench(
            setting,
            folder,
            names=[name.strip() for name in variants.split(",") if name.strip()] if variants else None,
            repetitions=repetitions if repetitions is not None else (2 if quick else 5),
            speed=speed,
            memory=memory,
            growth=growth,
            quick=quick,
            say=lambda text: typer.echo(text, err=True),
        )
    typer.echo((results.folder / "table.md").read_text())
    typer.echo(f"results  {folder}")


def _scale(pairs: str | None, folder: Path) -> None:
    """How the start of a run grows with the number of pairs."""
    from gapo.bench.scale import run_scale, sizes_of

    sizes = sizes_of(pairs)
    with _quiet():
        table = run_scale(sizes, folder, say=lambda text: typer.echo(text, err=True))
    typer.echo(table.read_text())
    typer.echo(f"results  {folder}")


def _number(text: str) -> int:
    from gapo.errors import InputError

    if not text.isdecimal():
        raise InputError(f"--pairs takes one whole number (several only with --scale), not {text!r}")
    return int(text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Only our lines: the monitors of a run that learns nothing have nothing to say."""
    import logging
    import warnings

    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    loggers = [logging.getLogger(name) for name in ("gapo", "trl", "datasets", "accelerate")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="(torch|transformers|accelerate|peft|huggingface_hub|trl)")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
