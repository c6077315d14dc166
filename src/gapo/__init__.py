"""gapo: align language models on preference pairs you cannot fully trust.

Names are loaded when they are first used, so that `import gapo` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapo.anchor import AnchorSettings, probe
    from gapo.model.load import load_policy
    from gapo.model.logps import PairLogps
    from gapo.model.merge import merged, save_merged
    from gapo.model.perturb import displaced
    from gapo.model.policy import pair_logps
    from gapo.objectives import get_objective
    from gapo.pairs.files import save_pairs
    from gapo.pairs.formats import load_pairs
    from gapo.pairs.noise import flip
    from gapo.pairs.pair import PairSet, PreferencePair
    from gapo.pairs.select import select
    from gapo.runs.audit import audit_pairs
    from gapo.runs.find_wrong import find_wrong_labels
    from gapo.training.config import PreferenceConfig
    from gapo.training.trainer import PreferenceTrainer

__version__ = "0.1.0"

_HOMES = {
    "AnchorSettings": "gapo.anchor",
    "PairLogps": "gapo.model.logps",
    "PairSet": "gapo.pairs.pair",
    "PreferenceConfig": "gapo.training.config",
    "PreferencePair": "gapo.pairs.pair",
    "PreferenceTrainer": "gapo.training.trainer",
    "audit_pairs": "gapo.runs.audit",
    "displaced": "gapo.model.perturb",
    "find_wrong_labels": "gapo.runs.find_wrong",
    "flip": "gapo.pairs.noise",
    "get_objective": "gapo.objectives",
    "load_pairs": "gapo.pairs.formats",
    "load_policy": "gapo.model.load",
    "merged": "gapo.model.merge",
    "pair_logps": "gapo.model.policy",
    "probe": "gapo.anchor",
    "save_merged": "gapo.model.merge",
    "save_pairs": "gapo.pairs.files",
    "select": "gapo.pairs.select",
}

__all__ = [
    "AnchorSettings",
    "PairLogps",
    "PairSet",
    "PreferenceConfig",
    "PreferencePair",
    "PreferenceTrainer",
    "audit_pairs",
    "displaced",
    "find_wrong_labels",
    "flip",
    "get_objective",
    "load_pairs",
    "load_policy",
    "merged",
    "pair_logps",
    "probe",
    "save_merged",
    "save_pairs",
    "select",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gapo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
