"""Models, pairs and tokenizers that fit in a test: 61 words, 32 dimensions, two layers, all of them random."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType

import torch
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.masking_utils import eager_mask

from gapo.pairs.encode import EncodedPair

VOCABULARY = 61
PAD = 0

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,  # far enough from uniform that a wrong token or position shows
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def build(
    kind: type[PreTrainedModel],
    config: type,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    attention: str = "sdpa",
    **settings: object,
) -> PreTrainedModel:
    """A random model of this class in evaluation mode; the global random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if dtype == torch.float64 and attention == "eager":
            attention = "eager_double"
        model = kind._from_config(config(**{**_SIZES, **settings}), attn_implementation=attention)
    model = model.to(dtype).eval()
    if dtype == torch.float64:
        keep_double(model)
    return model


def eager_double(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    softcap: float | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Eager attention that stays in float64: in transformers' own the mask's lowest double becomes -inf in float32."""
    key, value = (x.repeat_interleave(module.num_key_value_groups, dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if attention_mask is not None:
        scores = scores + attention_mask
    return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register("eager_double", eager_double)
AttentionMaskInterface.register("eager_double", eager_mask)


def keep_double(model: nn.Module) -> None:
    """transformers' RMS norms round to float32 on the way; a float64 truth must not."""

    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        epsilon = self.variance_epsilon if hasattr(self, "variance_epsilon") else self.eps
        gain = 1 + self.weight if type(self).__name__ == "Gemma2RMSNorm" else self.weight
        return gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon))

    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(forward, module)


def llama(*, tied: bool = False, **options: object) -> PreTrainedModel:
    return build(LlamaForCausalLM, LlamaConfig, num_key_value_heads=2, tie_word_embeddings=tied, **options)


def llama_tied(**options: object) -> PreTrainedModel:
    return llama(tied=True, **options)


def gpt_neox(**options: object) -> PreTrainedModel:
    return build(GPTNeoXForCausalLM, GPTNeoXConfig, **options)


def mistral(*, window: int | None = 4, **options: object) -> PreTrainedModel:
    return build(MistralForCausalLM, MistralConfig, num_key_value_heads=2, sliding_window=window, **options)


def gemma2(*, softcap: float | None = 1.5, **options: object) -> PreTrainedModel:
    """The cap is low enough to bend these logits."""
    settings = {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4}
    settings |= {"final_logit_softcapping": softcap, "attn_logit_softcapping": 5.0}
    return build(Gemma2ForCausalLM, Gemma2Config, attention="eager", **settings, **options)


def qwen2(**options: object) -> PreTrainedModel:
    return build(Qwen2ForCausalLM, Qwen2Config, num_key_value_heads=2, tie_word_embeddings=True, **options)


MODELS: dict[str, Callable[..., PreTrainedModel]] = {
    "llama": llama,
    "llama_tied": llama_tied,
    "gpt_neox": gpt_neox,
    "mistral": mistral,
    "gemma2": gemma2,
    "qwen2": qwen2,
}


def random_pairs(n: int = 5, seed: int = 0, prompt: tuple[int, int] = (1, 9), response: tuple[int, int] = (1, 8)):
    """Pairs of random ids (no padding id among them) with prompts and responses of different lengths."""
    rng = torch.Generator().manual_seed(seed)

    def ids(low: int, high: int) -> list[int]:
        length = int(torch.randint(low, high + 1, (), generator=rng))
        return torch.randint(3, VOCABULARY, (length,), generator=rng).tolist()

    return [EncodedPair(f"pair-{i}", ids(*prompt), ids(*response), ids(*response)) for i in range(n)]


# --- tokenizers ---------------------------------------------------------------------------------------------------

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>")
_TEXT = (
    "Human: Assistant: System: hello there how are you I am fine thanks what is the time it three four red blue green "
    "good bad yes no not very well today tell me about a cat dog bird fish that sleeps runs eats sings"
)
WORDS = ("\n", *_TEXT.split())

CHAT = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ '\n' }}{{ m['content'] }}<|end|>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{{ '\n' }}{% endif %}"
)
"""Writes the start of the text itself, a header and an end for every turn, and a newline after each end."""


def tiny_tokenizer(
    template: str | None = None, *, adds_bos: bool = True, special: tuple[str, ...] = SPECIAL
) -> PreTrainedTokenizerFast:
    """One word, one token; newlines count, spaces do not. `special` says which tokens are marked so."""
    words = [*SPECIAL, *WORDS]
    words += [f"word{i}" for i in range(VOCABULARY - len(words))]
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split(Regex(r"\n|\S+"), behavior="removed", invert=True)
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in SPECIAL if word not in special])
    tokenizer.add_special_tokens([AddedToken(word, normalized=False, special=True) for word in special])
    if adds_bos:
        tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", ids["<bos>"])])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )
