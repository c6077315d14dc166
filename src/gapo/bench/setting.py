"""What is measured: which model on which pairs, cut how, in which precision."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.errors import InputError, did_you_mean
from gapo.model.load import load_policy
from gapo.pairs.encode import Encoder, text_rows
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import PairSet
from gapo.training.dataset import EncodedPairs, encoded_pairs

PRECISIONS = ("fp32", "mixed")
MAX_LENGTH = 2048
HH = Path("shared", "data", "hh", "train.jsonl.gz")  # beside a checkout, where there is one


@dataclass(frozen=True)
class Setting:
    """A bench, as far as it is chosen; the rest is measured."""

    model: str = "smollm2-135m-instruct"
    data: str | None = None
    pairs: int = 32
    micro_batch: int = 4
    precision: str = "fp32"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"unknown precision {self.precision!r}; {did_you_mean(self.precision, PRECISIONS)}")
        if self.micro_batch < 1 or self.pairs < 1:
            raise InputError("pairs and micro-batch must be at least 1")
        if self.pairs % self.micro_batch:
            raise InputError(
                f"micro-batches of {self.micro_batch} do not cut {self.pairs} pairs evenly; choose a divisor"
            )

    @property
    def accumulation(self) -> int:
        return self.pairs // self.micro_batch


@dataclass(frozen=True)
class Workload:
    """The model and the pairs of one step, encoded once for everyone."""

    model: Any
    tokenizer: Any
    pairs: EncodedPairs
    name: str

    def twin(self) -> Any:
        """A model of its own on the same weights.

        Trainers patch and wrap the model they are given; the weights, which a learning rate of 0 leaves alone, need
        not be there twice.
        """
        return deepcopy(self.model, {id(p): p for p in self.model.parameters()})

    def text_rows(self) -> list[dict[str, str]]:
        """The pairs as the plain text of our token ids, for trainers that tokenise themselves."""
        return text_rows(self.tokenizer, self.pairs.encoded)


def workload(setting: Setting) -> Workload:
    """Load the model, and the first pairs of the file that it has room for."""
    name, pairs = read_pairs(setting.data)
    policy = load_policy(setting.model)
    longest = min(MAX_LENGTH, getattr(policy.model.config, "max_position_embeddings", None) or MAX_LENGTH)
    head = pairs[: 2 * setting.pairs]  # some may have no room for a reply
    found = encoded_pairs(head, Encoder(policy.tokenizer, longest))
    if len(found) < setting.pairs:
        raise InputError(f"{name} has {len(found)} pairs that can be used, fewer than the {setting.pairs} asked for")
    kept = EncodedPairs(found.encoded[: setting.pairs], None)
    return Workload(policy.model, policy.tokenizer, kept, name)


def read_pairs(data: str | None) -> tuple[str, PairSet]:
    """The pairs and what to call them in print: never a path."""
    if data is not None:
        pairs = load_pairs(data)
        return pairs.name, pairs
    beside = (Path.cwd().parent / HH, Path(__file__).parents[3].parent / HH)
    found = next((path for path in beside if path.is_file()), None)
    return ("Anthropic HH", load_pairs(found)) if found else ("courtesy", load_pairs("courtesy"))
