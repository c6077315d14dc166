"""Gradient checkpointing: layers that keep nothing in forward and run a second time in backward."""

from __future__ import annotations

from torch import nn


def recomputes(model: nn.Module) -> bool:
    """Whether some layer is run again in backward, by transformers' switch or in torch's wrapper (FSDP's way)."""
    return any(
        getattr(module, "gradient_checkpointing", False) or type(module).__name__ == "CheckpointWrapper"
        for module in model.modules()
    )
