"""`gapo generate`: a model's answers to a benchmark or a file of prompts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapo.cli.eval import Trust
from gapo.cli.leaving import may_leave
from gapo.cli.terminal import AsJson, Meter, Quiet, Voice

if TYPE_CHECKING:
    from gapo.evaluate.answers import Answers
    from gapo.evaluate.generation import Answerer, Decoding


def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder, a Hub id, lab, a folder of adapters; or the served name.")
    ],
    *,
    bench: Annotated[str, typer.Option(help="alpacaeval, arena-hard, or a file of prompts.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; answers/BENCH/NAME.json(l) if not given.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the model is called in the file; else from MODEL.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="A folder with the official files; else the Hub.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first questions.")] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="The longest answer (alpacaeval 2048, arena-hard 4096, a file 1024).")
    ] = None,
    temperature: Annotated[float, typer.Option(help="0: the most likely token; above: drawn.")] = 0.0,
    top_p: Annotated[float, typer.Option("--top-p", help="Draw from the likeliest tokens with this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For drawing; each question has its own from it.")] = 0,
    system: Annotated[str, typer.Option(help="A system message before each question.")] = "",
    template: Annotated[
        str | None, typer.Option(help="auto: the chat template if there is one; chat; none: the bare text.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    adapter: Annotated[str | None, typer.Option(help="A folder of LoRA adapters for MODEL.")] = None,
    trust: Trust = False,
    batch_tokens: Annotated[int, typer.Option(help="Tokens at once, prompts and answers: a matter of memory.")] = 16384,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server, http://localhost:8000/v1 say; MODEL is of it.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at a time, with --base-url.")] = 8,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a model's answers in the bench's official form. Run it again to go on after an interruption.

    Examples:

      gapo generate runs/quickstart/model --bench alpacaeval

      gapo generate smollm2-135m-instruct --bench prompts.jsonl --out answers.jsonl --max-new-tokens 256

      gapo generate meta-llama/Llama-3.1-8B-Instruct --bench arena-hard --base-url http://localhost:8000/v1
    """
    from gapo.evaluate.answering_model import name_of
    from gapo.evaluate.answers import suffix_of
    from gapo.evaluate.generation import DEFAULT_LENGTH, DEFAULT_LENGTHS, Decoding, generate_answers
    from gapo.evaluate.questions import bench_named

    questions = bench_named(bench, data_dir=data_dir, limit=limit)
    length = DEFAULT_LENGTHS.get(questions.name, DEFAULT_LENGTH) if max_new_tokens is None else max_new_tokens
    decoding = Decoding(length, temperature, top_p, seed, system)
    called = name or name_of(model, adapter)
    path = out or Path("answers") / Path(questions.name).stem / f"{called}{suffix_of(questions)}"
    _check_suffix(path, suffix_of(questions))
    voice = Voice(quiet=quiet, as_json=as_json)
    progress = Progress(voice)
    if base_url:
        _no_options_of_weights(template=template, dtype=dtype, adapter=adapter)
        answerer = _served(base_url, model, decoding, called, concurrency)
    else:
        answerer = _loaded(model, adapter, dtype, trust, decoding, called, template, batch_tokens, progress)
    with (
        may_leave(lambda _: "interrupted; what was answered is kept, and the same command goes on from it"),
        voice.meter("answers", len(questions.questions)) as progress.meter,
    ):
        answers = generate_answers(answerer, questions, path, progress.told)
    _tell(answers, path, voice)


def _check_suffix(path: Path, wanted: str) -> None:
    from gapo.errors import InputError

    if path.suffix != wanted:
        raise InputError(f"--out {path} must end in {wanted}, the form of this bench")


def _no_options_of_weights(**given: str | None) -> None:
    from gapo.errors import InputError

    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} is the server's matter with --base-url; leave it out")


def _served(base_url: str, model: str, decoding: Decoding, name: str, concurrency: int) -> Answerer:
    from gapo.evaluate.endpoint import Endpoint
    from gapo.evaluate.served import ServedAnswerer

    return ServedAnswerer(Endpoint(base_url, model, concurrency=concurrency, timeout=600.0), decoding, name=name)


def _loaded(
    model: str,
    adapter: str | None,
    dtype: str | None,
    trust: bool,
    decoding: Decoding,
    name: str,
    template: str | None,
    batch_tokens: int,
    progress: Progress,
) -> Answerer:
    import transformers

    from gapo.evaluate.answering_model import load_answering
    from gapo.evaluate.batched import BatchedAnswerer

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    weights, tokenizer = load_answering(
        model, adapter=adapter, dtype=dtype or "float32", trust_remote_code=trust, say=progress.voice.say
    )
    options = {"template": template or "auto", "batch_tokens": batch_tokens, "stepped": progress.stepped}
    return BatchedAnswerer(weights, tokenizer, name, decoding, **options)  # type: ignore[arg-type]


class Progress:
    """Answers as they come, with the speed of the tokens behind them."""

    def __init__(self, voice: Voice) -> None:
        self.voice, self.tokens, self.done = voice, 0, -1
        self.begun = time.monotonic()
        self.meter: Meter

    def told(self, done: int, total: int) -> None:
        """So many answers are there; the first word is what an earlier run left."""
        if self.done < 0:
            self.meter.before, self.meter.begun, self.begun = done, time.monotonic(), time.monotonic()
            if done:
                self.voice.say(f"{done} of {total} answers are there already")
        self.done = done
        self.meter.reach(done, self._speed())

    def stepped(self, rows: int) -> None:
        """One more token for so many answers."""
        self.tokens += rows
        if self.tokens % 16 < rows and self.meter.drawn:
            self.meter.reach(max(self.done, 0), self._speed())

    def _speed(self) -> str:
        return f"{self.tokens / max(time.monotonic() - self.begun, 1e-9):,.0f} tokens/s" if self.tokens else ""


def _tell(answers: Answers, path: Path, voice: Voice) -> None:
    """Where they are, and what is to be known of them."""
    from statistics import mean

    made, notes = answers.by_id, answers.notes
    length = mean(map(len, made.values()))
    voice.tell(f"{len(made)} answers of {answers.model}, {length:,.0f} characters on average -> {path}")
    if notes["cut"]:
        voice.tell(f"{notes['cut']} are cut at {answers.decoding['max_new_tokens']} tokens (--max-new-tokens)")
    full = len(notes["finish"].get("no room", []))
    if notes["empty"]:
        why = f", {full} of them because the prompt fills the model's positions" if full else ""
        voice.tell(f"{notes['empty']} are empty{why}")
    counts = {"answers": len(made), "cut": notes["cut"], "empty": notes["empty"], "mean_characters": length}
    voice.give({"path": str(path), "model": answers.model, **counts, "decoding": dict(answers.decoding)})
