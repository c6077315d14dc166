"""Models that cannot be used: checkpoints, configs, tokenizers and chat templates, broken one way each."""

# ruff: noqa: E501 - a case a line: a table reads better than its parts
from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from corpus import Case, jsonl
from safetensors.torch import load_file, save_file

EVAL = ("eval", "reward", "model", "--data", "pairs.jsonl", "--quiet")
AUDIT = ("audit", "pairs.jsonl", "--model", "model", "--out", "audit", "--quiet")
GENERATE = ("generate", "model", "--bench", "prompts.jsonl", "--out", "answers.jsonl", "--max-new-tokens", "2", "-q")
TRAIN = (
    "train",
    "mini",
    "model.name=model",
    "data.train=pairs.jsonl",
    "train.output_dir=run",
    "train.use_cpu=true",
    "-q",
)
DRY = (*TRAIN[:-1], "--dry-run", "--quiet")
WEIGHTS = "model.safetensors"
Spoil = Callable[[Path], object]


def model_case(name: str, spoil: Spoil, says: str, where: str = "model", command: tuple[str, ...] = EVAL) -> Case:
    def write(folder: Path) -> None:
        if "prompts.jsonl" in command:
            (folder / "prompts.jsonl").write_bytes(jsonl({"id": "1", "prompt": "tell me"}))
        spoil(folder / "model")

    return Case(f"model: {name}", command, says, where, write)


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Spoil:
    """The checkpoint with other tensors."""

    def spoil(model: Path) -> None:
        tensors = load_file(model / WEIGHTS)
        change(tensors)
        save_file(tensors, model / WEIGHTS, {"format": "pt"})

    return spoil


def values(value: float, name: str = "model.layers.0.mlp.up_proj.weight") -> Spoil:
    return weights(lambda tensors: tensors[name].view(-1)[3:4].fill_(value))


def content(file: str, change: Callable[[bytes], bytes]) -> Spoil:
    return lambda model: (model / file).write_bytes(change((model / file).read_bytes()))


def settings(file: str, **changes: object) -> Spoil:
    """A JSON file with other values; None removes the key."""

    def changed(old: bytes) -> bytes:
        found = {**json.loads(old), **changes}
        return json.dumps({key: value for key, value in found.items() if value is not None}).encode()

    return content(file, changed)


def template(text: str) -> Spoil:
    return lambda model: (model / "chat_template.jinja").write_text(text)


def conversations(spoil: Spoil) -> Spoil:
    """Chat templates are used where prompts are conversations."""

    def write(model: Path) -> None:
        turns = [{"role": "user", "content": "tell me about a cat"}]
        row = {"prompt": turns, "chosen": "it sleeps", "rejected": "no"}
        (model.parent / "pairs.jsonl").write_bytes(jsonl(row, {**row, "chosen": "it eats"}))
        spoil(model)

    return write


def few_tokens(model: Path) -> None:
    """A model of nine tokens beside a tokenizer of sixty-one."""
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights(lambda tensors, name=name: tensors.update({name: tensors[name][:9].clone()}))(model)
    settings("config.json", vocab_size=9)(model)


def long_prompts(model: Path) -> None:
    row = {"prompt": "cat " * 500, "chosen": "it sleeps", "rejected": "no"}
    (model.parent / "pairs.jsonl").write_bytes(jsonl(row, {**row, "chosen": "it eats"}))


CHECKPOINTS = [
    model_case("no weights", lambda m: (m / WEIGHTS).unlink(), "could not load the model"),
    model_case("weights: empty", content(WEIGHTS, lambda old: b""), "could not load the model"),
    model_case("weights: 4 bytes", content(WEIGHTS, lambda old: old[:4]), "could not load the model"),
    model_case("weights: half", content(WEIGHTS, lambda old: old[: len(old) // 2]), "could not load the model"),
    model_case("weights: the last byte is missing", content(WEIGHTS, lambda old: old[:-1]), "could not load the model"),
    model_case("weights: header too long", content(WEIGHTS, lambda old: b"\xff" * 8 + old[8:]), "could not load"),
    model_case("weights: header is no JSON", content(WEIGHTS, lambda old: old[:8] + b"x" * 64 + old[72:]), "could not load"),
    model_case("weights: words", content(WEIGHTS, lambda old: b"these are no weights"), "could not load the model"),
    model_case("weights: a tensor is missing", weights(lambda t: t.pop("model.norm.weight")), "model.norm.weight"),
    model_case("weights: a tensor of another shape", weights(lambda t: t.update({"model.norm.weight": torch.ones(7)})), "model.norm.weight"),
    model_case("weights: NaN", values(math.nan), "not finite in .*up_proj"),
    model_case("weights: inf", values(math.inf), "not finite in .*up_proj"),
    model_case("weights: -inf in the embedding", values(-math.inf, "model.embed_tokens.weight"), "not finite in .*embed_tokens"),
    model_case("weights: NaN, audit", values(math.nan), "not finite", command=AUDIT),
    model_case("weights: NaN, generate", values(math.nan), "not finite", command=GENERATE),
    model_case("weights: NaN, train", values(math.nan), "not finite", command=TRAIN),
    model_case("weights: a broken pickle alone", lambda m: (m / WEIGHTS).rename(m / "pytorch_model.bin"), "could not load|pickle"),
    model_case("config: empty", content("config.json", lambda old: b""), "config|could not load"),
    model_case("config: words", content("config.json", lambda old: b"hello"), "config|could not load"),
    model_case("config: half", content("config.json", lambda old: old[:80]), "config|could not load"),
    model_case("config: a list", content("config.json", lambda old: b"[]"), "config|could not load"),
    model_case("config: latin-1", content("config.json", lambda old: b'{"model_type": "ll\xe4ma"}'), "could not load"),
    model_case("config: no model type", settings("config.json", model_type=None), "could not load"),
    model_case("config: unknown model type", settings("config.json", model_type="abacus"), "could not load"),
    model_case("config: hidden size 0", settings("config.json", hidden_size=0), "do not fit"),
    model_case("config: hidden size of words", settings("config.json", hidden_size="large"), "could not load"),
    model_case("config: heads do not divide", settings("config.json", num_attention_heads=5), "could not load"),
    model_case("config: another vocabulary", settings("config.json", vocab_size=17), "could not load|do not fit"),
    model_case("config: more layers", settings("config.json", num_hidden_layers=9), "could not load|layers"),
    model_case("config: a folder", lambda m: ((m / "config.json").unlink(), (m / "config.json").mkdir()), "no config.json"),
    model_case("config: not there", lambda m: (m / "config.json").unlink(), "no config.json"),
    model_case("config: words, dry run", content("config.json", lambda old: b"hello"), "config", command=DRY),
    model_case("config: unknown model type, dry run", settings("config.json", model_type="abacus"), "config", command=DRY),
    model_case("config: hidden size of words, dry run", settings("config.json", hidden_size="large"), "config", command=DRY),
    model_case("config: no text model", settings("config.json", model_type="vit", architectures=["ViTModel"]), "could not load"),
]  # fmt: skip

TOKENIZERS = [
    model_case("tokenizer: not there", lambda m: [file.unlink() for file in m.glob("tokenizer*")], "could not load the tokenizer"),
    model_case("tokenizer: empty", content("tokenizer.json", lambda old: b""), "could not load the tokenizer"),
    model_case("tokenizer: half", content("tokenizer.json", lambda old: old[: len(old) // 2]), "could not load the tokenizer"),
    model_case("tokenizer: words", content("tokenizer.json", lambda old: b"hello"), "could not load the tokenizer"),
    model_case("tokenizer: of no known kind", settings("tokenizer.json", model={"type": "Abacus"}), "could not load the tokenizer"),
    model_case("tokenizer: config is no JSON", content("tokenizer_config.json", lambda old: b"{"), "could not load the tokenizer"),
    model_case("tokenizer: half, dry run", content("tokenizer.json", lambda old: old[:99]), "tokenizer", command=DRY),
    model_case("tokenizer: without eos", settings("tokenizer_config.json", eos_token=None), "no end-of-sequence token"),
    model_case("tokenizer: without eos and pad", settings("tokenizer_config.json", eos_token=None, pad_token=None), "no end-of-sequence token"),
    model_case("tokenizer: without eos, train", settings("tokenizer_config.json", eos_token=None), "no end-of-sequence token", command=TRAIN),
    model_case("tokenizer: without eos, audit", settings("tokenizer_config.json", eos_token=None), "no end-of-sequence token", command=AUDIT),
    model_case("tokenizer: without eos, generate", settings("tokenizer_config.json", eos_token=None), "no end-of-sequence token", command=GENERATE),
    model_case("tokenizer: larger than the model", few_tokens, "the model knows 9: tokenizer", "pair"),
    model_case("tokenizer: larger than the model, audit", few_tokens, "the model knows 9: tokenizer", "pair", AUDIT),
    model_case("tokenizer: larger than the model, train", few_tokens, "the model knows 9: tokenizer", "pair", TRAIN),
]  # fmt: skip

TEMPLATES = [
    model_case(f"template: {name}{way}", conversations(template(text)), says, where, command)
    for name, text, says, where in (
        ("syntax error", "{% for m in messages %}", "chat template", "template"),
        ("unknown tag", "{% make tea %}", "chat template", "template"),
        ("raises", "{{ raise_exception('no conversations') }}", "no conversations", "template"),
        ("unknown filter", "{{ messages | brew }}", "chat template", "template"),
        ("undefined field", "{{ messages[0].mood.colour }}", "chat template", "template"),
        ("divides by zero", "{{ 1 / 0 }}", "chat template", "template"),
        ("drops the response", "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "leaves .*out", "template"),
        ("says always the same", "hello", "leaves .*out", "template"),
        ("a huge range", "{% for i in range(999999999) %}x{% endfor %}", "chat template", "template"),
        ("endless repetition", "{{ 'x' * 999999999999 }}", "chat template", "template"),
        ("reaches for Python", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "chat template", "template"),
    )
    for way, command in (("", EVAL), (", train", TRAIN))
]  # fmt: skip

LENGTHS = [
    model_case("prompts longer than the model, train", long_prompts, "prompt longer than the limit", "pairs", command=TRAIN),
    model_case("prompts longer than the model, audit", long_prompts, "prompt longer than the limit", "pairs", command=AUDIT),
    model_case("prompts longer than the model, eval", long_prompts, "prompt longer than the limit", "pairs"),
    model_case("prompts longer than the limit", long_prompts, "prompt longer than the limit", "pairs", command=(*EVAL, "--max-length", "64")),
    model_case("lengths that leave no room", lambda m: None, "must be|leaves no room", "max_prompt_length", command=(*TRAIN[:-1], "data.max_length=8", "data.max_prompt_length=8", "-q")),
]  # fmt: skip

PLACES = [
    Case("model: not there", ("eval", "reward", "./gone", "--data", "pairs.jsonl", "-q"), "no model folder", "./gone"),
    Case("model: a file", ("eval", "reward", "./pairs.jsonl", "--data", "pairs.jsonl", "-q"), "no model folder|is a file", "pairs.jsonl"),
    Case("model: an empty folder", ("eval", "reward", "empty", "--data", "pairs.jsonl", "-q"), "no config.json", "empty", lambda f: (f / "empty").mkdir()),
    Case("model: on no Hub", ("eval", "reward", "nobody/nothing", "--data", "pairs.jsonl", "-q"), "could not load", "nobody/nothing"),
    Case("model: adapters without a base", ("eval", "reward", "ad", "--data", "pairs.jsonl", "-q"), "base", "ad", lambda f: adapter(f, {})),
    Case("model: adapters of a base that is gone", ("eval", "reward", "ad", "--data", "pairs.jsonl", "-q"), "no model folder", "./gone", lambda f: adapter(f, {"base_model_name_or_path": "./gone"})),
    Case("model: adapters that are no JSON", ("eval", "reward", "ad", "--data", "pairs.jsonl", "-q"), "not JSON", "adapter_config.json", lambda f: adapter(f, None)),
    Case("model: adapters without weights", ("eval", "reward", "ad", "--data", "pairs.jsonl", "-q"), "adapters", "ad", lambda f: adapter(f, {"base_model_name_or_path": "model", "peft_type": "LORA", "target_modules": ["q_proj"]})),
    Case("model: adapters of an unknown kind", ("eval", "reward", "ad", "--data", "pairs.jsonl", "-q"), "adapters", "ad", lambda f: adapter(f, {"base_model_name_or_path": "model", "peft_type": "MAGIC"})),
    Case("model: --adapter without adapters", (*AUDIT, "--adapter", "model"), "no adapter", "model"),
    Case("model: generate --adapter without adapters", (*GENERATE, "--adapter", "model"), "no adapters", "model", lambda f: (f / "prompts.jsonl").write_bytes(jsonl({"prompt": "a"}))),
]  # fmt: skip


def adapter(folder: Path, settings: dict[str, object] | None) -> None:
    (folder / "ad").mkdir()
    (folder / "ad" / "adapter_config.json").write_text("{" if settings is None else json.dumps(settings))


MODELS = [*CHECKPOINTS, *TOKENIZERS, *TEMPLATES, *LENGTHS, *PLACES]
