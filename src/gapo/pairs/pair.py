"""A preference pair, and an ordered set of them."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from gapo.errors import InputError

if TYPE_CHECKING:
    import datasets


class Message(NamedTuple):
    """One turn of a conversation."""

    role: str
    content: str


Prompt = str | tuple[Message, ...]  # plain text, or a conversation that the model continues


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """A prompt and two responses, the first preferred.

    `id` is made from the content alone and does not depend on which response is preferred, so a pair keeps its id
    when its label is flipped. `flipped` is None where nobody knows. `source` says where the pair came from (file:row);
    the same pair read from another place is equal to it.
    """

    prompt: Prompt
    chosen: str
    rejected: str
    flipped: bool | None = None
    subset: str | None = None
    source: str = field(default="", compare=False)
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", content_id(self.prompt, self.chosen, self.rejected))

    def swapped(self) -> PreferencePair:
        """The same pair with the opposite label."""
        return replace(self, chosen=self.rejected, rejected=self.chosen)

    @property
    def prompt_text(self) -> str:
        """The prompt as a person reads it."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n".join(f"{turn.role}: {turn.content}" for turn in self.prompt)


def content_id(prompt: Prompt, chosen: str, rejected: str) -> str:
    """16 hex digits, the same on every machine and whichever response is preferred."""
    content = json.dumps([prompt, sorted((chosen, rejected))], ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is not a pair: where it is, and why."""

    source: str
    reason: str
    detail: str = ""


class PairsOnDisk(Sequence[PreferencePair], ABC):
    """Pairs with unique ids that are read from disk one at a time: what a set of millions holds instead of a tuple."""

    @abstractmethod
    def take(self, indices: Iterable[int]) -> Sequence[PreferencePair]:
        """The pairs at these positions, in this order."""

    @abstractmethod
    def flipped(self) -> tuple[bool | None, ...]:
        """The mark of each pair."""


@dataclass(frozen=True)
class PairSet(Sequence[PreferencePair]):
    """Pairs in a fixed order with unique ids; `bad_rows` are the rows that were left out on the way.

    Two sets are equal when their pairs are, whatever they are called and wherever they were read.
    """

    pairs: Sequence[PreferencePair]  # a tuple, or pairs on disk
    name: str = field(default="pairs", compare=False)
    bad_rows: Sequence[BadRow] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pairs, PairsOnDisk):
            object.__setattr__(self, "pairs", _with_unique_ids(self.pairs))

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[PreferencePair]:
        return iter(self.pairs)

    @overload
    def __getitem__(self, index: int) -> PreferencePair: ...
    @overload
    def __getitem__(self, index: slice) -> PairSet: ...
    def __getitem__(self, index: int | slice) -> PreferencePair | PairSet:
        return replace(self, pairs=self.pairs[index]) if isinstance(index, slice) else self.pairs[index]

    def take(self, indices: Iterable[int]) -> PairSet:
        """The pairs at these positions, in this order."""
        if isinstance(self.pairs, PairsOnDisk):
            return replace(self, pairs=self.pairs.take(indices))
        return replace(self, pairs=tuple(self.pairs[i] for i in indices))

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(pair.id for pair in self.pairs)

    @property
    def flipped(self) -> tuple[bool | None, ...]:
        if isinstance(self.pairs, PairsOnDisk):
            return self.pairs.flipped()
        return tuple(pair.flipped for pair in self.pairs)

    def split(self, fraction: float, seed: int = 0) -> tuple[PairSet, PairSet]:
        """Two sets that share no prompt; about `fraction` of the prompts go to the second.

        A prompt's side depends on its own text and the seed only, so adding pairs never moves old ones across.
        """
        if not 0 < fraction < 1:
            raise InputError(f"a split fraction must lie between 0 and 1, not {fraction}")
        held_out = bytearray(_uniform(pair.prompt, seed) < fraction for pair in self.pairs)
        first = self.take(i for i, held in enumerate(held_out) if not held)
        second = self.take(i for i, held in enumerate(held_out) if held)
        return first, second

    def rows(self) -> Iterator[dict[str, Any]]:
        """The pairs as plain rows, the inverse of reading them."""
        for pair in self.pairs:
            row: dict[str, Any] = {
                "id": pair.id,
                "prompt": pair.prompt,
                "chosen": pair.chosen,
                "rejected": pair.rejected,
            }
            if not isinstance(pair.prompt, str):
                row["prompt"] = [turn._asdict() for turn in pair.prompt]
                row["chosen"] = [{"role": "assistant", "content": pair.chosen}]
                row["rejected"] = [{"role": "assistant", "content": pair.rejected}]
            if pair.flipped is not None:
                row["flipped"] = pair.flipped
            if pair.subset is not None:
                row["subset"] = pair.subset
            yield row

    def to_dataset(self) -> datasets.Dataset:
        """A Hugging Face data set with TRL's column names, the id and, where known, `flipped`."""
        import datasets

        return datasets.Dataset.from_list(list(self.rows()))


def _uniform(prompt: Prompt, seed: int) -> float:
    digest = hashlib.blake2b(json.dumps([prompt, seed]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _with_unique_ids(pairs: Sequence[PreferencePair]) -> tuple[PreferencePair, ...]:
    names = unique_names(pair.id for pair in pairs)
    return tuple(pair if name == pair.id else replace(pair, id=name) for pair, name in zip(pairs, names, strict=True))


def unique_names(ids: Iterable[str]) -> Iterator[str]:
    """The second pair with the same id becomes `<id>-2`, the third `<id>-3`."""
    seen: Counter[str] = Counter()
    for each in ids:
        name = each
        while name in seen:  # `<id>-2` may itself be taken, for instance after reading a saved set
            seen[each] += 1
            name = f"{each}-{seen[each]}"
        seen[name] += 1
        yield name


def messages(turns: Iterable[Mapping[str, str]]) -> tuple[Message, ...]:
    """Rows of `{"role": ..., "content": ...}` as a conversation."""
    return tuple(Message(turn["role"], turn["content"]) for turn in turns)
