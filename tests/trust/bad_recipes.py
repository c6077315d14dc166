"""Recipes that say nothing sensible: as YAML files, and as overrides on the command line."""

# ruff: noqa: E501 - a case a line: a table reads better than its parts
from __future__ import annotations

from pathlib import Path

from corpus import Case

DRY = ("--dry-run", "--quiet")
BASE = "model: {name: model}\ndata: {train: pairs.jsonl}\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


def file_case(name: str, content: str | bytes, says: str, where: str = "bad.yaml") -> Case:
    def write(folder: Path) -> None:
        (folder / "bad.yaml").write_bytes(content.encode() if isinstance(content, str) else content)

    return Case(f"recipe: {name}", ("train", "bad.yaml", *DRY), says, where, write)


def override_case(override: str, says: str, where: str = "") -> Case:
    """Each key has its own case; the name of the key must be in the sentence."""
    key, _, value = override.partition("=")
    command = ("train", "mini", "model.name=model", "data.train=pairs.jsonl", override, *DRY)
    return Case(f"override: {key}={value[:40]}", command, says, where or key)


FILES = [
    file_case("empty", "", "must hold the sections"),
    file_case("comments alone", "# nothing\n", "must hold the sections"),
    file_case("a list", "- model\n- data\n", "must hold the sections"),
    file_case("a word", "model", "must hold the sections"),
    file_case("a number", "3.5", "must hold the sections"),
    file_case("two documents", "model: {name: model}\n---\nmodel: {name: other}\n", "line 2 .*document"),
    file_case("tabs", "model:\n\tname: model\n", "line 2 .*cannot start any token"),
    file_case("an open bracket", "model: {name: model\n", "is not a readable YAML file"),
    file_case("an open quote", 'model: {name: "model}\n', "is not a readable YAML file"),
    file_case("a key without a value in a list", "model: [name: model, : ]\n", "readable YAML|must hold keys"),
    file_case("UTF-16", "model: {name: model}".encode("utf-16"), "is not a readable YAML file"),
    file_case("latin-1", b"model: {name: mod\xe8le}\n", "is not a readable YAML file"),
    file_case("NUL bytes", b"model: \0\0\n", "is not a readable YAML file"),
    file_case("a control character", b"model: \x07\n", "is not a readable YAML file"),
    file_case("a Python object", "model: !!python/object/apply:os.system [true]\n", "could not determine a constructor"),
    file_case("an unknown tag", "model: !secret {name: model}\n", "could not determine a constructor"),
    file_case("a timestamp for a name", "model: {name: 2024-13-45}\n", "readable YAML|month|model"),
    file_case("a set", "model: !!set {a, b}\n", "unknown key|must hold keys|readable"),
    file_case("binary", "model: !!binary aGVsbG8=\n", "must hold keys"),
    file_case("broken binary", "model: !!binary a\n", "is not a readable YAML file"),
    file_case("a number of a word", "data: {limit: !!int many}\n", "is not a readable YAML file"),
    file_case("an anchor that contains itself", "model: &a [*a]\n", "contain itself"),
    file_case("a section that contains itself", "model: &a {name: *a}\n", "contain itself"),
    file_case("sections that contain each other", "model: &a {name: &b {name: *a}}\n", "contain itself"),
    file_case("an alias of nothing", "model: *nothing\n", "undefined alias"),
    file_case("a billion laughs", BOMB, "more than 100,000 values"),
    file_case("a billion laughs in a key", BOMB + "model: {name: *j}\n", "more than 100,000 values"),
    file_case("a section twice", BASE + "model: {name: lab}\n", "'model' is there twice"),
    file_case("a key twice", "train: {seed: 1, seed: 2}\n", "'seed' is there twice"),
    file_case("a list for a key", "{[a, b]: c}\n", "readable YAML|unknown section"),
    file_case("an object for a key", "{{a: b}: c}\n", "is not a readable YAML file"),
    file_case("a hundred levels", "model: " + "[" * 100 + "]" * 100, "nested too deeply"),
    file_case("five thousand levels", "[" * 5_000, "nested too deeply"),
    file_case("merging what is no mapping", "model: {<<: [1, 2]}\n", "is not a readable YAML file"),
    file_case("an unknown section", BASE + "modell: {name: lab}\n", "did you mean 'model'"),
    file_case("a section of no text", BASE + "1: {name: lab}\n", "unknown section"),
    file_case("a null section", BASE + "null: {name: lab}\n", "unknown section"),
    file_case("an unknown key", "model: {names: lab}\n", "did you mean 'name'"),
    file_case("a key of no text", "model: {1: lab}\n", "unknown key 'model.1'"),
    file_case("a section that is a list", "model: [lab]\n", "must hold keys"),
    file_case("a section that is a word", "train: fast\n", "section 'train' must hold keys"),
    file_case("a section that is a long text", f"train: {'x' * 100_000}\n", "section 'train' must hold keys"),
    file_case("about: a word", BASE + "about: fast\n", "section 'about' must hold keys"),
    file_case("about: unknown key", BASE + "about: {gpuz: 3}\n", "did you mean 'gpu"),
    file_case("about: no GPUs", BASE + "about: {gpus: 0}\n", "about.gpus must be"),
    file_case("about: hours of words", BASE + "about: {hours: {gapo: long}}\n", "about.hours must be"),
    file_case("about: unknown GPU", BASE + "about: {gpu: abacus}\n", "abacus", "abacus"),
    file_case("methods: a word", BASE + "methods: all\n", "section 'methods' must hold objectives"),
    file_case("methods: unknown objective", BASE + "methods: {dpoo: {}}\n", "did you mean 'dpo'"),
    file_case("methods: a word for one", BASE + "methods: {dpo: fast}\n", "methods.dpo must hold keys"),
    file_case("methods: unknown key", BASE + "methods: {dpo: {learning_rat: 1}}\n", "did you mean 'learning_rate'"),
    file_case("methods: NaN", BASE + "methods: {dpo: {learning_rate: .nan}}\n", "learning_rate must be"),
    file_case("select: a word", "data: {train: pairs.jsonl, select: best}\n", "data.select must say"),
    file_case("select: from nowhere", "data: {select: {from: [], share: 0.5}}\n", "data.select.from must be"),
    file_case("select: share NaN", "data: {select: {from: a, share: .nan}}\n", "data.select.share must be"),
    file_case("select: share 0", "data: {select: {from: a, share: 0}}\n", "data.select.share must be"),
    file_case("select: unknown end", "data: {select: {from: a, share: 0.5, keep: best}}\n", "data.select.keep"),
    file_case("knobs: a word", "objective: {name: dpo, dpo: strong}\n", "objective.dpo must hold knobs", "objective.dpo"),
    file_case("knobs: beta of words", "objective: {name: dpo, beta: strong}\n", "beta", "beta"),
    Case("recipe: not there", ("train", "gone.yaml", *DRY), "there is no recipe", "gone.yaml"),
    Case("recipe: nearly there", ("train", "minni", *DRY), "did you mean 'mini'", "minni"),
    Case("recipe: a folder", ("train", "model", *DRY), "there is no recipe", "model"),
    Case("recipe: a folder that ends in yaml", ("train", "d.yaml", *DRY), "there is no recipe", "d.yaml", lambda f: (f / "d.yaml").mkdir()),
    Case("recipe: a path that is too long", ("train", "x" * 400 + ".yaml", *DRY), "there is no recipe", "xxx"),
]  # fmt: skip

OVERRIDES = [
    override_case("nonsense", "not of the form section.key=value"),
    override_case("seed=3", "not of the form section.key=value"),
    override_case("=3", "not of the form section.key=value", "=3"),
    override_case("trian.seed=3", "did you mean 'train'", "trian"),
    override_case("train.sede=3", "did you mean 'seed'"),
    override_case("train..seed=3", "unknown key", "train."),
    override_case("train.seed.deep=3", "train.seed must be", "train.seed"),
    override_case("train.seed=-1", "must be a whole number of at least 0"),
    override_case("train.seed=1.5", "must be a whole number"),
    override_case("train.seed=abc", "must be a whole number"),
    override_case("train.seed=true", "must be a whole number"),
    override_case(f"train.seed={10**30}", "must be"),
    override_case("train.learning_rate=.nan", "must be a number"),
    override_case("train.learning_rate=.inf", "must be a number"),
    override_case("train.learning_rate=-1e-5", "must be a number of at least 0"),
    override_case("train.learning_rate=quick", "must be a number"),
    override_case(f"train.learning_rate={'9' * 400}", "must be a number"),
    override_case("train.max_steps=0", "must be a whole number of at least 1"),
    override_case("train.max_steps=-7", "must be a whole number of at least 1"),
    override_case("train.num_train_epochs=0", "must be a number"),
    override_case("train.num_train_epochs=.inf", "must be a number"),
    override_case("train.per_device_train_batch_size=0", "must be a whole number of at least 1"),
    override_case("train.gradient_accumulation_steps=0", "must be a whole number of at least 1"),
    override_case("train.warmup_steps=-5", "warmup_steps", "train section"),
    override_case("train.max_grad_norm=.nan", "must be a number"),
    override_case("train.weight_decay=heavy", "must be a number"),
    override_case("train.adam_beta1=.nan", "must be a number"),
    override_case("train.lr_scheduler_type=spiral", "spiral", "spiral"),
    override_case("train.optim=magic", "magic", "magic"),
    override_case("train.save_strategy=often", "often", "often"),
    override_case("train.precision=double", "precision", "double"),
    override_case("train.shared_prefix=maybe", "shared_prefix", "maybe"),
    override_case("train.use_cpu=perhaps", "must be true or false"),
    override_case("train.gradient_checkpointing=some", "must be true or false"),
    override_case("train.output_dir=[a, b]", "must be a name or a path"),
    override_case("data.train=[a, b]", "must be a name or a path"),
    override_case("data.train=", "must be a name or a path"),
    override_case('data.train="a\\0b.jsonl"', "data.train|does not exist|unknown data set", "a"),
    override_case("data.limit=0", "must be a whole number of at least 1"),
    override_case("data.limit=few", "must be a whole number of at least 1"),
    override_case("data.max_length=1", "must be a whole number of at least 2"),
    override_case("data.max_prompt_length=0", "must be a whole number of at least 1"),
    override_case("data.max_prompt_length=5000", "leaves no room", "max_prompt_length"),
    override_case("data.eval_fraction=1", "must be a number from 0 to 0.9"),
    override_case("data.eval_fraction=.nan", "must be a number from 0 to 0.9"),
    override_case("data.template=jinja", "must be one of"),
    override_case("data.cache_tokens=sometimes", "must be auto"),
    override_case("data.strict=very", "must be true or false"),
    override_case("noise.rate=1.5", "must be a number from 0 to 1"),
    override_case("noise.rate=.nan", "must be a number from 0 to 1"),
    override_case("noise.rate=-0.1", "must be a number from 0 to 1"),
    override_case("noise.kind=lenght", "did you mean 'length'"),
    override_case("noise.seed=-1", "must be a whole number"),
    override_case("objective.name=gappo", "did you mean 'gapo'", "gappo"),
    override_case("objective.name=[]", "objective.name must be"),
    override_case("objective.name=[gapo, gapo]", "objective.name must be"),
    override_case("objective.name={a: b}", "unknown objective", "{'a': 'b'}"),
    override_case("objective.beta=.nan", "beta", "beta"),
    override_case("objective.beta=.inf", "beta", "beta"),
    override_case("objective.beta=-1", "beta", "beta"),
    override_case("objective.beta=0", "beta", "beta"),
    override_case("objective.beta=many", "beta", "beta"),
    override_case("objective.betta=2", "did you mean 'beta'", "betta"),
    override_case("anchor.radius=.nan", "must be a number"),
    override_case("anchor.radius=.inf", "must be a number"),
    override_case("anchor.radius=far", "must be a number"),
    override_case("anchor.batches=0", "must be a whole number of at least 1"),
    override_case("anchor.engine=steam", "engine", "steam"),
    override_case("anchor.strategy=luck", "strategy", "luck"),
    override_case("anchor.direction=north", "direction", "north"),
    override_case("anchor.bank_dtype=int3", "bank_dtype", "int3"),
    override_case("anchor.scope=[", "scope", "scope"),
    override_case("anchor.scope=nothing_like_it", "scope", "nothing_like_it"),
    override_case("model.name=[a]", "must be a name or a path"),
    override_case("model.dtype=float8", "did you mean 'float", "model.dtype"),
    override_case("model.lora=big", "must be fields of a LoraConfig"),
    override_case("model.lora={r: 0}", "model.lora", "model.lora"),
    override_case("model.lora={r: many}", "model.lora", "model.lora"),
    override_case("model.lora={rank: 4}", "model.lora", "model.lora"),
    override_case("model.lora={r: 2, target_modules: [nowhere]}", "model.lora", "model.lora"),
    override_case("model.quantization=2bit", "unknown model.quantization", "2bit"),
    override_case("model.attn_implementation=telepathy", "telepathy", "telepathy"),
    override_case("model.trust_remote_code=maybe", "must be true or false"),
]

RECIPES = [*FILES, *OVERRIDES]
