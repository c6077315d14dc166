"""What tuning tries: for every method three settings of its own knobs, at three learning rates."""

from __future__ import annotations

from typing import Any

# not tuned: the choice of what each is without doubt
SAME_AS = {"consensus": "simpo", "consensus_dpo": "dpo", "consensus_gapo": "gapo"}
FACTORS = (1.0, 2.0, 4.0)  # times the recipe's learning rate: in the lab one is too slow, and eight breaks the model
BASE_RATES = {"mini": 2e-4, "smollm2": 4e-5}
ANCHORED = ({"beta": 2.5, "gamma": 0.1}, {"beta": 10.0, "gamma": 0.5}, {"beta": 40.0, "gamma": 0.5})
KNOBS: dict[str, tuple[dict[str, Any], ...]] = {
    "gapo": ANCHORED,
    "gradnorm": ANCHORED,
    "length_only": ANCHORED,
    "simpo": tuple({"beta": beta, "gamma_beta_ratio": 0.1} for beta in (2.5, 10.0, 40.0)),
    "dpo": tuple({"beta": beta} for beta in (0.05, 0.1, 0.5)),
    "dr_dpo": tuple({"beta": 0.1, "b": b} for b in (0.5, 1.0, 2.0)),
    "robust_dpo": tuple({"beta": 0.1, "e": e} for e in (0.1, 0.2, 0.3)),
    "ipo": tuple({"tau": tau} for tau in (0.1, 0.5, 1.0)),
    "cpo": tuple({"beta": 0.1, "alpha": alpha} for alpha in (0.0, 0.1, 1.0)),
    "kto": tuple({"beta": beta} for beta in (0.05, 0.1, 0.5)),
    "orpo": tuple({"lam": lam} for lam in (0.1, 0.5, 1.0)),
    "rdpo": tuple({"beta": 0.1, "alpha": alpha} for alpha in (0.01, 0.05, 0.2)),
    "alpha_dpo": tuple({"beta": 2.5, "gamma": 0.25, "alpha": alpha} for alpha in (0.01, 0.05, 0.2)),
}
