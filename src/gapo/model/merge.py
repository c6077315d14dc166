"""Adapters become part of the weights: one plain model that needs no peft, in fp32 whatever the base was stored in."""

from __future__ import annotations

import warnings
from copy import copy, deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError
from gapo.model.kept_low import LOW, as_before
from gapo.storage import writing

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def merged(model: nn.Module) -> PreTrainedModel:
    """A plain model with the active adapter in its weights; the one given stays as it is.

    A base in bf16 is cast to fp32 and one in 4 bits is dequantised to it before the adapter is added: in the type it is
    stored in, most of what was learned would round away.
    """
    from peft import PeftModel, get_peft_model
    from peft.utils import get_peft_model_state_dict

    model = getattr(model, "module", model)
    if not isinstance(model, PeftModel):
        raise InputError("this model has no adapters to merge: it is whole already; save it with save_pretrained")
    name = model.active_adapter
    found = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    learned = {key: value.detach().cpu() for key, value in found.items()}
    config = _to_fill(model.peft_config[name])
    base = _plain(model)
    if config.peft_type.value == "LORA":
        _untie(base, learned)
    with warnings.catch_warnings():  # about tied embeddings, which are cut loose here where they must be
        warnings.filterwarnings("ignore", module="peft")
        return _filled(get_peft_model(base, config), learned, config.peft_type.value)


def _filled(adapted: Any, learned: dict[str, Any], kind: str) -> PreTrainedModel:
    """The weights of an empty adapter's model with what was learned added to them."""
    from peft.utils import set_peft_model_state_dict

    left: Any = set_peft_model_state_dict(adapted, learned)
    if left.unexpected_keys:
        raise InputError(f"the adapter cannot be merged: {left.unexpected_keys[0]} has no place in the base model")
    try:
        whole: Any = adapted.merge_and_unload(safe_merge=True)
    except AttributeError:
        raise InputError(f"{kind} adapters cannot be merged into weights; use LoRA") from None
    return whole.eval()  # type: ignore[no-any-return]


def save_merged(model: nn.Module, folder: str | Path, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
    """Write the merged model, and its tokenizer, to a folder that `load_policy` and transformers read."""
    with writing(Path(folder)):
        merged(model).save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)


def _to_fill(config: Any) -> Any:
    """The adapter's config, to make an empty one from: some starts would change the base a second time."""
    config = copy(config)
    config.inference_mode = False
    if isinstance(getattr(config, "init_lora_weights", None), str):
        config.init_lora_weights = True
    return config


def _plain(model: Any) -> Any:
    """A copy of the base model without adapters, in fp32 at least, on the CPU."""
    base = deepcopy(model).unload()
    as_before(base)
    if getattr(base, "is_quantized", False):
        base = base.dequantize()
    base = base.cpu()
    if any(p.dtype in LOW for p in base.parameters()):
        base = base.float()
    return base.requires_grad_(False)


def _untie(base: Any, learned: dict[str, Any]) -> None:
    """Give the head a weight of its own where adapters change it or the embeddings alone."""
    head, embedding = base.get_output_embeddings(), base.get_input_embeddings()
    if head is None or head.weight is not embedding.weight:
        return
    names = {id(module): name for name, module in base.named_modules()}
    if any(f"{names[id(module)]}." in key for module in (head, embedding) for key in learned):
        head.weight = deepcopy(head.weight)
