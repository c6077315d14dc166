"""What a stranger could send: a pickle that acts when it is read, a model with code of its own, words that are HTML."""

from __future__ import annotations

from pathlib import Path

import torch

import tiny


class Trap:
    """Whoever unpickles it creates a file."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = str(sprung)

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.sprung, "w")


def trap_file(path: Path, sprung: Path) -> Path:
    """A pickle as torch writes it, with a trap among its weights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"weight": torch.zeros(2), "trap": Trap(sprung)}, path)
    return path


def model_folder(folder: Path) -> Path:
    """A small model and its tokenizer, as save_pretrained writes them."""
    tiny.llama(dtype=torch.float32).save_pretrained(folder)
    tiny.tiny_tokenizer().save_pretrained(folder)
    return folder
