"""The method: how far each pair's margin falls at a pessimistic anchor."""

from gapo.anchor.engines import AnchorSettings, Probe, probe

__all__ = ["AnchorSettings", "Probe", "probe"]
