"""What a policy is worth in the laboratory, where the true quality of every reply is known.

AlpacaEval 2 and the downstream scores in miniature: a win rate against the start model on held-out prompts, the same
with length controlled for, an exact-match score on a skill nobody trained, and the distance travelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor
from torch.nn.functional import kl_div
from transformers import LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from gapo.lab.batches import ReplyBatch, reply_batch
from gapo.lab.load import load_start
from gapo.lab.sampling import sample_replies
from gapo.lab.skill import all_questions
from gapo.lab.split import split_requests
from gapo.lab.world import quality

SPLIT_SEED = 0  # the shipped start model and pairs were made with it
LENGTH_PENALTY = 1e-4  # keeps the slope finite when length alone decides every win; 1e-2 would bias the rate by 0.04


def qualities(prompts: Sequence[str], replies: Sequence[str]) -> np.ndarray:
    """The true quality of every reply."""
    return np.array([quality(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)])


def wins(quality_a: ArrayLike, quality_b: ArrayLike) -> np.ndarray:
    """1 where a is better, 0 where b is, 1/2 where they tie."""
    lead: np.ndarray = np.sign(np.asarray(quality_a, float) - np.asarray(quality_b, float))
    return 0.5 + 0.5 * lead


def win_rate(quality_a: ArrayLike, quality_b: ArrayLike) -> float:
    """The share of prompts on which a's reply is better than b's, a tie counting one half."""
    return float(wins(quality_a, quality_b).mean())


def length_controlled_win_rate(won: ArrayLike, length_a: ArrayLike, length_b: ArrayLike) -> float:
    """The win rate at equal lengths: sigmoid(c) of the fit P(win) = sigmoid(c + s * tanh(d / std d)), d = |a| - |b|.

    The length term of AlpacaEval 2 with one model pair and no instruction difficulty. With equal lengths it is the
    plain win rate; where a won because of its length, c is smaller than the plain rate says.
    """
    outcome = np.asarray(won, float)
    difference = np.asarray(length_a, float) - np.asarray(length_b, float)
    plain = float(outcome.mean())
    if difference.std() == 0 or plain in (0.0, 1.0):
        return plain
    feature = np.tanh(difference / difference.std())

    def cost(fit: np.ndarray) -> tuple[float, np.ndarray]:
        score = fit[0] + fit[1] * feature
        error = expit(score) - outcome
        loss = np.mean(np.logaddexp(0, score) - outcome * score) + 0.5 * LENGTH_PENALTY * fit[1] ** 2
        return float(loss), np.array([error.mean(), (error * feature).mean() + LENGTH_PENALTY * fit[1]])

    best = minimize(cost, np.zeros(2), jac=True, method="BFGS")
    return float(expit(best.x[0]))


def skill_kept(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> float:
    """The share of all sums answered exactly, taking the likeliest words."""
    questions = all_questions()
    asked = [question.prompt for question in questions]
    answers = sample_replies(model, tokenizer, asked, seed=0, temperature=0.0, max_new_tokens=3)
    right = [answer == question.answer for answer, question in zip(answers, questions, strict=True)]
    return sum(right) / len(right)


@torch.no_grad()
def kl_drift(
    policy: PreTrainedModel,
    start: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    replies: Sequence[str],
) -> float:
    """Mean over the replies' tokens of KL(policy || start) = sum_v p(v) (log p(v) - log q(v)), exact over the words.

    With the policy's own replies this is the distance travelled as the policy lives it, in nats per token.
    """
    batch = reply_batch(tokenizer, prompts, replies)
    log_p, log_q = (_log_probs(model, batch) for model in (policy, start))
    return float(kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1).mean())


def _log_probs(model: PreTrainedModel, batch: ReplyBatch) -> Float[Tensor, "tokens words"]:
    """The distribution from which each reply token was drawn."""
    device = next(model.parameters()).device
    logits: Tensor = model(input_ids=batch.tokens.to(device), attention_mask=batch.attention.to(device)).logits.cpu()
    return logits[:, :-1][batch.is_reply[:, 1:]].double().log_softmax(-1)


def held_out_prompts(count: int) -> list[str]:
    """The first prompts of the part that neither the pairs nor the start model's training saw."""
    held_out = split_requests(SPLIT_SEED).held_out
    if not 0 < count <= len(held_out):
        raise ValueError(f"between 1 and {len(held_out)} held-out prompts, not {count}")
    return [request.prompt for request in held_out[:count]]


@cache
def _start() -> tuple[LlamaForCausalLM, PreTrainedTokenizerBase]:
    return load_start()


@cache
def start_replies(prompts: int, seed: int) -> tuple[str, ...]:
    """The start model does not change: several runs in one process ask it once."""
    return tuple(sample_replies(*_start(), held_out_prompts(prompts), seed))


@cache
def _start_skill() -> float:
    return skill_kept(*_start())


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int = 0, prompts: int = 400
) -> dict[str, float]:
    """Everything at once, on `prompts` held-out prompts; the start model against itself wins exactly one half."""
    asked = held_out_prompts(prompts)
    start, _ = _start()
    ours = sample_replies(model, tokenizer, asked, seed)
    theirs = start_replies(prompts, seed)
    our_quality, their_quality = qualities(asked, ours), qualities(asked, theirs)
    our_length, their_length = ([len(reply.split()) for reply in replies] for replies in (ours, theirs))
    won = wins(our_quality, their_quality)
    return {
        "win_rate": float(won.mean()),
        "lc_win_rate": length_controlled_win_rate(won, our_length, their_length),
        "quality": float(our_quality.mean()),
        "start_quality": float(their_quality.mean()),
        "skill_kept": skill_kept(model, tokenizer),
        "start_skill": _start_skill(),
        "drift": kl_drift(model, start, tokenizer, asked, ours),
        "mean_reply_tokens": float(np.mean(our_length)),
    }
