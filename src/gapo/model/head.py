"""The output layer on response positions only, in chunks: `[batch, tokens, vocabulary]` is never built."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CHUNK_ENTRIES = 2**24  # logits held at once: 64 MB in fp32


@dataclass(frozen=True)
class Head:
    """What a causal model does between its last hidden state and its logits."""

    layer: nn.Module
    softcap: float | None = None  # Gemma 2: cap * tanh(logits / cap)
    scale: float = 1.0  # Cohere multiplies its logits, Granite divides them

    @property
    def vocabulary(self) -> int:
        return int(self.layer.weight.shape[0])  # type: ignore[index]

    def logits(self, hidden: Float[Tensor, "positions hidden"]) -> Float[Tensor, "positions vocabulary"]:
        logits = self.layer(hidden)
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()  # the normaliser sums 1e5 terms
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits

    def token_logps(
        self, hidden: Float[Tensor, "positions hidden"], targets: Int[Tensor, " positions"]
    ) -> Float[Tensor, " positions"]:
        """log p(target | hidden) at each position."""
        chunk = max(1, CHUNK_ENTRIES // self.vocabulary)
        if len(hidden) <= chunk:
            return self._chunk_logps(hidden, targets)
        # each chunk's logits are made again in backward: memory stays at one chunk
        parts = zip(hidden.split(chunk), targets.split(chunk), strict=True)
        return torch.cat(
            [checkpoint(self._chunk_logps, h, t, use_reentrant=False, preserve_rng_state=False) for h, t in parts]
        )

    def _chunk_logps(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = self.logits(hidden)
        return logits.gather(1, targets[:, None]).squeeze(1) - logits.logsumexp(dim=1)


def head_of(causal_lm: nn.Module) -> Head:
    """The head as the model's config describes it."""
    config = causal_lm.config
    scale = float(getattr(config, "logit_scale", None) or 1.0)
    divisor = float(getattr(config, "logits_scaling", None) or 1.0)
    return Head(
        layer=causal_lm.get_output_embeddings(),  # type: ignore[operator]
        softcap=getattr(config, "final_logit_softcapping", None),
        scale=scale / divisor,
    )
