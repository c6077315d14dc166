"""Losses: pure functions of log-probs; no model, no recipe, no device."""

from gapo.objectives.registry import Moments, Objective, get_objective, objectives
from gapo.objectives.slopes import Slopes, depends_on_margin_alone, slopes

__all__ = ["Moments", "Objective", "Slopes", "depends_on_margin_alone", "get_objective", "objectives", "slopes"]
