"""The paper's figures, shares of one where they are rates, to stand beside ours. Nothing here computes ours."""

from __future__ import annotations

METHODS = ("gapo", "simpo", "dpo", "ipo", "cpo", "kto", "orpo", "rdpo", "alpha_dpo")

# Tables 1 and 2, Mistral-Instruct 7B: AlpacaEval 2 length-controlled and raw, GSM8k
ALPACA_LC = dict(zip(METHODS, (0.357, 0.321, 0.268, 0.203, 0.238, 0.245, 0.245, 0.273, 0.323), strict=True))
ALPACA_WIN = dict(zip(METHODS, (0.387, 0.348, 0.249, 0.203, 0.288, 0.236, 0.249, 0.245, 0.326), strict=True))
GSM8K = {"gapo": 0.403, "simpo": 0.366, "dpo": 0.418, "rdpo": 0.426, "alpha_dpo": 0.293}

# Appendix, robustness against label noise: Pythia-2.8B on Anthropic HH, reward accuracy at each flip rate
FLIP_RATES = (0.0, 0.1, 0.2, 0.3, 0.4)
_NOISE = {
    ("at random", "gapo"): (0.668, 0.656, 0.649, 0.628, 0.598),
    ("at random", "dr_dpo"): (0.662, 0.654, 0.642, 0.627, 0.588),
    ("at random", "dpo"): (0.633, 0.623, 0.629, 0.585, 0.570),
    ("by length", "gapo"): (0.668, 0.633, 0.583, 0.566, 0.520),
    ("by length", "dr_dpo"): (0.662, 0.621, 0.492, 0.483, 0.449),
    ("by length", "dpo"): (0.633, 0.517, 0.543, 0.543, 0.520),
}
NOISE_ACCURACY = {
    (flips, rate, method): figure
    for (flips, method), figures in _NOISE.items()
    for rate, figure in zip(FLIP_RATES, figures, strict=True)
}

# Appendix, ablations: AlpacaEval 2 win rate of Mistral-7B (scope: Llama-3-8B; controls: length-controlled)
ABLATIONS = {
    ("radius", "0.025"): 0.379,
    ("radius", "0.05"): 0.387,
    ("radius", "0.075"): 0.373,
    ("radius", "0.1"): 0.370,
    ("anchor batch", "1x"): 0.357,
    ("anchor batch", "4x"): 0.372,
    ("anchor batch", "8x"): 0.387,
    ("anchor batch", "16x"): 0.365,
    ("scope", "LM head"): 0.207,
    ("scope", "every parameter"): 0.237,
    ("control", "GAPO"): 0.357,
    ("control", "SimPO"): 0.321,
    ("control", "SimPO+SAM"): 0.349,
    ("control", "GradNorm-Reweight"): 0.335,
}

# Appendix, wall-clock: Mistral-7B, AlpacaEval 2 length-controlled, and time beside one SimPO epoch
WALL_CLOCK_LC = {"SimPO, 1 epoch": 0.321, "SimPO, 2 epochs": 0.330, "GAPO two_pass": 0.357}
WALL_CLOCK_TIME = {"SimPO, 1 epoch": 1.0, "SimPO, 2 epochs": 2.0, "GAPO two_pass": 2.0}

# Mechanism: 20 % random flips, at the end of the epoch
FLIPPED_WEIGHT = -0.169
TIER_FLIPS = {"bottom": 0.301, "top": 0.169}

# Probe: 1,984 pairs in 31 batches
PROBE = {
    "positive": 0.994,
    "alignment": 0.084,
    "spearman": 0.909,
    "top_overlap": 0.861,
    "norm_spread": 0.78,
    "alignment_spread": 0.59,
}

# Selection: SimPO on a share of the pairs, by the gap at the start
_SHARES = (0.3, 0.5, 0.7)
_SELECTED = {
    "lowest": ((0.621, 0.676, 0.747), (0.056, 0.135, 0.239)),
    "random": ((0.610, 0.665, 0.724), (0.180, 0.247, 0.309)),
    "highest": ((0.618, 0.672, 0.726), (0.197, 0.262, 0.338)),
}
SELECTION_ACCURACY = {
    (keep, share): figure
    for keep, (accuracy, _) in _SELECTED.items()
    for share, figure in zip(_SHARES, accuracy, strict=True)
}
SELECTION_DRIFT = {
    (keep, share): figure
    for keep, (_, drift) in _SELECTED.items()
    for share, figure in zip(_SHARES, drift, strict=True)
}

# Curvature: extreme eigenvalues of the LM head's Hessian, by Lanczos
CURVATURE = {
    "lambda_max": {"dpo": 149.6, "simpo": 158.8, "gapo": 145.1},
    "top_mean": {"dpo": 103.4, "simpo": 98.9, "gapo": 94.9},
    "lambda_min": {"dpo": -143.1, "simpo": -106.9, "gapo": -81.4},
}
