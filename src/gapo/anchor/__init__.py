"""The method: how far each pair's margin falls at a pessimistic anchor."""

from gapo.anchor.engines import probe
from gapo.anchor.probe import Probe
from gapo.anchor.settings import AnchorSettings

__all__ = ["AnchorSettings", "Probe", "probe"]
