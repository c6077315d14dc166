"""What a tokenizer does, as a short text: two with the same identity give the same ids for every conversation."""

from __future__ import annotations

import hashlib
import json
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PACKAGES = ("transformers", "tokenizers")
SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "split_special_tokens")


def tokenizer_identity(tokenizer: PreTrainedTokenizerBase) -> str:
    """A digest of vocabulary and rules, special tokens, chat template, and the versions that apply them."""
    template = json.dumps(tokenizer.chat_template, default=str)
    facts = {
        "kind": type(tokenizer).__name__,
        "template": template,
        "special": {name: getattr(tokenizer, name, None) for name in SPECIAL},
        "all_special": sorted(tokenizer.all_special_ids),
        "versions": {name: version(name) for name in PACKAGES},
        "day": str(date.today()) if "strftime_now" in template else None,  # some templates write the date
    }
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True, default=str).encode(), digest_size=16)
    for part in _rules(tokenizer):
        digest.update(part)
    return digest.hexdigest()


def _rules(tokenizer: PreTrainedTokenizerBase) -> list[bytes]:
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "to_str"):
        rules = json.loads(backend.to_str())
        for left_by_the_last_call in ("truncation", "padding"):
            rules.pop(left_by_the_last_call, None)
        return [json.dumps(rules).encode()]
    with tempfile.TemporaryDirectory() as folder:  # a tokenizer in Python: the files it would be loaded from
        tokenizer.save_pretrained(folder)
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return [path.name.encode() + path.read_bytes() for path in files]
