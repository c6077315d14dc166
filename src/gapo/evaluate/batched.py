"""Answers of a transformers model, many at a time: an answer does not depend on what is answered beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from gapo.errors import InputError
from gapo.evaluate.generation import Decoding, Keep, seed_of
from gapo.evaluate.partial import Made
from gapo.evaluate.questions import Question
from gapo.model.generate import end_ids, padding_id
from gapo.pairs.encode import TEMPLATES, Encoder
from gapo.pairs.pair import Message, Prompt

NO_LIMIT = 2**31


@dataclass(frozen=True)
class _Asked:
    """A question as ids; `limit` is how many tokens its answer may have: those asked for, or the room left."""

    question: Question
    ids: list[int]
    limit: int


class BatchedAnswerer:
    """Batches of like length, padded on the left, with the model's cache; at most `batch_tokens` tokens at once.

    `stepped` hears the number of answers under way at every token.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        decoding: Decoding,
        *,
        template: str = "auto",
        batch_tokens: int = 16384,
        stepped: Callable[[int], None] = lambda rows: None,
    ) -> None:
        if batch_tokens < 1:
            raise InputError(f"--batch-tokens must be 1 or more, not {batch_tokens}")
        self.model, self.inner, self.decoding = name, model.eval(), decoding
        self.batch_tokens, self.stepped = batch_tokens, stepped
        self.template = _template(template, tokenizer, decoding.system)
        self.encoder = Encoder(tokenizer, max_length=NO_LIMIT, template=self.template)
        weight = next(model.parameters())
        self.device = weight.device
        self.facts: Mapping[str, Any] = {
            "engine": "transformers",
            **decoding.facts(),
            "template": self.template,
            "dtype": str(weight.dtype).removeprefix("torch."),
            "weights": weights_digest(model),
        }
        self.notes: Mapping[str, Any] = {"versions": _versions(), "device": self.device.type}

    def answer(self, questions: Sequence[Question], keep: Keep) -> None:
        """Longest prompts first, so that memory fails early and the time left is rather less than it seems."""
        asked = [self._asked(each) for each in questions]
        full = [Made(each.question.id, "", 0, "no room") for each in asked if each.limit < 1]
        if full:
            keep(full)
        waiting = list(batches([each for each in asked if each.limit >= 1], self.batch_tokens))[::-1]
        while waiting:
            batch = waiting.pop()
            try:
                made = self._batch(batch)
            except torch.OutOfMemoryError:
                if len(batch) == 1:
                    raise InputError(
                        f"the memory does not hold the answer to {batch[0].question.id} alone; lower --max-new-tokens "
                        "or use --dtype bfloat16"
                    ) from None
                torch.cuda.empty_cache()
                half = (len(batch) + 1) // 2
                waiting += [batch[half:], batch[:half]]
                continue
            keep(made)

    def _asked(self, question: Question) -> _Asked:
        ids = self.encoder.prompt_ids(self._prompt(question.prompt))
        positions = getattr(self.inner.config, "max_position_embeddings", None) or NO_LIMIT
        return _Asked(question, ids, min(self.decoding.max_new_tokens, positions - len(ids)))

    def _prompt(self, text: str) -> Prompt:
        if not self.decoding.system:
            return text
        return (Message("system", self.decoding.system), Message("user", text))

    @torch.no_grad()
    def _batch(self, batch: Sequence[_Asked]) -> list[Made]:
        width = max(len(each.ids) for each in batch)
        pad = padding_id(self.encoder.tokenizer, self.inner)
        ends = self._ends()
        rows = [[pad] * (width - len(each.ids)) + each.ids for each in batch]
        seen = [[0] * (width - len(each.ids)) + [1] * len(each.ids) for each in batch]
        with only_what_was_asked(self.inner):
            output = self.inner.generate(
                input_ids=torch.tensor(rows, device=self.device),
                attention_mask=torch.tensor(seen, device=self.device),
                max_new_tokens=batch[0].limit,
                do_sample=False,
                use_cache=True,
                pad_token_id=pad,
                eos_token_id=sorted(ends),
                logits_processor=LogitsProcessorList(self._draws([each.question for each in batch])),
                stopping_criteria=StoppingCriteriaList([_Steps(self.stepped, len(batch))]),
            )
        made = output[:, width:].tolist()
        return [self._made(each.question, ids, ends) for each, ids in zip(batch, made, strict=True)]

    def _draws(self, questions: Sequence[Question]) -> list[LogitsProcessor]:
        if not self.decoding.sampled:
            return []
        seeds = [seed_of(each, self.decoding.seed) for each in questions]
        return [OwnDraws(seeds, self.decoding.temperature, self.decoding.top_p, self.device)]

    def _made(self, question: Question, ids: list[int], ends: set[int]) -> Made:
        length = next((place for place, token in enumerate(ids) if token in ends), None)
        kept = ids[:length]
        text = str(self.encoder.tokenizer.decode(kept, skip_special_tokens=True)).strip()
        return Made(question.id, text, len(kept), "length" if length is None else "end")

    def _ends(self) -> set[int]:
        """The model's end tokens, the tokenizer's, and the one that its chat template closes an answer with."""
        ends = set(end_ids(self.inner, self.encoder.tokenizer))
        if self.template == "chat":
            ends.add(self.encoder.response_ids(self._prompt("a"), "a")[-1])
        return ends


def batches(asked: Sequence[_Asked], budget: int) -> Iterator[list[_Asked]]:
    """Rows of one limit and like lengths, rows times (prompt and answer) within the budget; the longest first.

    One limit: a row near the model's last position must not shorten, or be lengthened by, its neighbours.
    """
    batch: list[_Asked] = []
    for each in sorted(asked, key=lambda one: (one.limit, -len(one.ids))):
        width = len(batch[0].ids) if batch else 0
        if batch and (each.limit != batch[0].limit or (len(batch) + 1) * (width + each.limit) > budget):
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


class OwnDraws(LogitsProcessor):
    """Each row draws from a generator of its own: with Gumbel noise g, argmax(log p + g) is a draw from p.

    A rounding difference between two batches then matters as rarely as it does for greedy decoding.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float, device: torch.device) -> None:
        self.temperature, self.top_p = temperature, top_p
        self.generators = [torch.Generator(device=device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        logits = (scores if scores.dtype == torch.float64 else scores.float()) / self.temperature
        if self.top_p < 1:
            logits = logits.masked_fill(~in_nucleus(logits, self.top_p), -torch.inf)
        noise = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return logits - noise.clamp_min(torch.finfo(torch.float32).tiny).log()


def in_nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """The fewest most likely tokens whose probabilities reach `top_p`."""
    chances, order = logits.softmax(-1).sort(dim=-1, descending=True, stable=True)
    kept = chances.cumsum(-1) - chances < top_p
    return torch.zeros_like(kept).scatter(-1, order, kept)


class _Steps(StoppingCriteria):
    """Says at every token how many rows are under way; stops nothing."""

    def __init__(self, stepped: Callable[[int], None], rows: int) -> None:
        self.stepped, self.rows = stepped, rows

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:  # type: ignore[override]
        self.stepped(self.rows)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


@contextmanager
def only_what_was_asked(model: Any) -> Iterator[None]:
    """Without the settings a checkpoint brings (a repetition penalty, say): they would work unseen."""
    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def weights_digest(model: Any) -> str:
    """16 hex digits that change with any weight: the sum of each tensor's bits, its name and shape."""
    whole = hashlib.blake2b(digest_size=8)
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    for name, tensor in model.state_dict().items():
        bits = tensor.detach().contiguous().reshape(-1)
        total = int(bits.view(kinds[bits.element_size()]).sum(dtype=torch.int64)) if bits.numel() else 0
        whole.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total};".encode())
    return whole.hexdigest()


def _template(template: str, tokenizer: Any, system: str) -> str:
    """`auto` is the chat template where there is one."""
    if template not in TEMPLATES:
        raise InputError(f"--template must be one of {', '.join(TEMPLATES)}, not {template!r}")
    if template == "chat" and not tokenizer.chat_template:
        raise InputError("--template is chat but the tokenizer has no chat template; use auto or none")
    chosen = "chat" if template != "none" and tokenizer.chat_template else "none"
    if system and chosen == "none":
        raise InputError("--system needs a chat template; leave it out, or write it into the prompts")
    return chosen


def _versions() -> dict[str, str]:
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__}
