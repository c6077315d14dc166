"""The model under evaluation: a name, a folder, a run, or adapters on their base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError
from gapo.model.load import load_policy
from gapo.model.trust import refuse_pickled_adapters
from gapo.model.wheel import Say
from gapo.pairs.table import one_line
from gapo.pairs.yaml_text import NotYaml, read_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ADAPTERS = "adapter_config.json"


@dataclass(frozen=True)
class Subject:
    """A model ready to be measured. `run`: the run folder it comes from, if any."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    run: Path | None = None

    @property
    def pad_id(self) -> int:
        from gapo.model.generate import padding_id

        return padding_id(self.tokenizer, self.model)


def run_folder(name: str) -> Path | None:
    """The run that `name` is the folder of, if it is one."""
    path = Path(name).expanduser()
    return path if (path / "recipe.yaml").is_file() else None


def load_subject(name: str, say: Say = print, *, trust_remote_code: bool = False) -> Subject:
    """Load what `load_policy` takes, the folder of a run, or a folder of adapters; on a GPU where there is one.

    A run's recipe does not decide whether a model's own code is run here: the folder may come from anybody.
    """
    import torch

    run = run_folder(name)
    folder = run / "model" if run is not None else Path(name).expanduser()
    if run is not None and not folder.is_dir():
        raise InputError(f"{name} has no model yet; let the run finish (gapo train ... --resume)")
    if holds_adapters(folder):
        policy = _adapted(folder, say, trust_remote_code)
    else:
        policy = load_policy(str(folder) if run is not None else name, trust_remote_code=trust_remote_code, say=say)
    model = policy.model.eval()
    if torch.cuda.is_available() and not getattr(model, "is_quantized", False):
        model = model.to("cuda")  # type: ignore[arg-type]
    return Subject(model, policy.tokenizer, name, run)


def holds_adapters(folder: Path) -> bool:
    """Whether the folder holds adapters and no whole model."""
    return (folder / ADAPTERS).is_file() and not (folder / "config.json").is_file()


def base_of(folder: Path) -> str:
    """The model that the adapters in a folder name as theirs."""
    try:
        base = json.loads((folder / ADAPTERS).read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        raise InputError(f"{folder / ADAPTERS} is not JSON with the adapters' settings; copy it again") from None
    if not base:
        raise InputError(f"{folder / ADAPTERS} names no base model; add base_model_name_or_path, or merge the adapters")
    return str(base)


def _adapted(folder: Path, say: Say, trusted: bool) -> Any:
    """Adapters on the model they were trained on: as the run's recipe has it, or as the adapters name it."""
    from dataclasses import replace

    from peft import PeftModel, load_peft_weights, set_peft_model_state_dict

    refuse_pickled_adapters(folder)
    recipe = folder.parent / "recipe.yaml"
    if recipe.is_file():
        settings = {**recipe_section(recipe, "model"), "trust_remote_code": trusted}
        policy = load_policy(**{key: value for key, value in settings.items() if key != "merge"}, say=say)
        with fitting_adapters(folder, policy.name):
            set_peft_model_state_dict(policy.model, load_peft_weights(str(folder), device="cpu"))
        return policy
    policy = load_policy(base_of(folder), trust_remote_code=trusted, say=say)
    with fitting_adapters(folder, policy.name):
        return replace(policy, model=PeftModel.from_pretrained(policy.model, str(folder)))  # type: ignore[arg-type]


@contextmanager
def fitting_adapters(folder: Path, base: str) -> Iterator[None]:
    """What peft meets in a folder of adapters is one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # missing, cut or foreign files: peft raises what its parts raise
        reason = one_line(error)
        raise InputError(
            f"the adapters in {folder} cannot be put on {base} ({reason}); give the folder that training saved"
        ) from None


def recipe_section(path: Path, name: str) -> dict[str, Any]:
    """A section of the recipe that a run wrote."""
    try:
        return dict(read_yaml(path.read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, KeyError, TypeError, NotYaml):
        raise InputError(f"{path} has no readable section {name!r}; put back the recipe that training wrote") from None


def same_tokens(one: Subject, other: Subject) -> bool:
    """Whether both models read text as the same token ids."""
    return one.tokenizer.get_vocab() == other.tokenizer.get_vocab()  # type: ignore[no-any-return]


def need_same_tokens(model: Subject, other: Subject, why: str) -> None:
    if not same_tokens(model, other):
        raise InputError(
            f"{model.name} and {other.name} have different tokenizers; {why} compares models of one tokenizer"
        )
