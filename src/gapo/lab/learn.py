"""The start model: a small Llama trained from nothing on the careless writer's replies and on sums."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from gapo.lab.batches import reply_batch
from gapo.lab.skill import Question, all_questions
from gapo.lab.world import Request
from gapo.lab.writer import write_reply


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the start model learns; a tenth of the steps warm up, then the rate falls to zero along a cosine."""

    steps: int = 900
    rows: int = 64
    learning_rate: float = 3e-3
    skill_share: float = 0.2

    def rate(self, step: int) -> float:
        warm = max(1, self.steps // 10)
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / (self.steps - warm)))


def build_model(tokenizer: PreTrainedTokenizerBase, seed: int, width: int = 112, layers: int = 3) -> LlamaForCausalLM:
    """Freshly drawn; about 490,000 parameters unless another width is asked for."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 20 // 7,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call]


def learn(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    requests: Sequence[Request],
    schedule: Schedule,
    seed: int,
) -> float:
    """Train in place on the replies' tokens; returns the mean loss of the last twentieth of the steps."""
    rng = random.Random(seed)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    questions = all_questions()
    losses: list[float] = []
    model.train()
    for step in range(schedule.steps):
        prompts, replies = _rows(requests, questions, schedule, rng)
        batch = reply_batch(tokenizer, prompts, replies)
        logits = model(input_ids=batch.tokens, attention_mask=batch.attention).logits
        loss = cross_entropy(logits[:, :-1][batch.is_reply[:, 1:]], batch.tokens[:, 1:][batch.is_reply[:, 1:]])
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate(step)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    model.train(False)
    tail = losses[-max(1, schedule.steps // 20) :]
    return sum(tail) / len(tail)


def _rows(
    requests: Sequence[Request], questions: Sequence[Question], schedule: Schedule, rng: random.Random
) -> tuple[list[str], list[str]]:
    sums = round(schedule.rows * schedule.skill_share)
    asked = [rng.choice(questions) for _ in range(sums)]
    told = [rng.choice(requests) for _ in range(schedule.rows - sums)]
    prompts = [question.prompt for question in asked] + [request.prompt for request in told]
    replies = [question.answer for question in asked] + [write_reply(request, rng) for request in told]
    return prompts, replies
