"""What is mutated, and the tests that should notice: the quick ones first."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "mutation"

_OBJECTIVES = ("unit/objectives", "property/test_objective_laws.py", "oracle/test_gapo.py")
_ANCHOR = ("unit/anchor", "oracle/test_gapo.py", "oracle/test_engines.py")
_SCORE = (
    "unit/evaluate/test_length_error.py",
    "unit/evaluate/test_logistic.py",
    "unit/evaluate/test_length_control.py",
    "unit/evaluate/test_scores.py",
)
_ALPACA = (
    "unit/evaluate/test_alpaca_annotations.py",
    "unit/evaluate/test_length_data.py",
    "unit/evaluate/test_score_command.py",
)
_NOISE = ("unit/pairs/test_flip_rules.py", "property/test_noise.py", "unit/pairs/test_store.py")

TESTS: dict[str, tuple[str, ...]] = {
    "objectives.anchored": _OBJECTIVES,
    "objectives.policy_only": _OBJECTIVES,
    "objectives.registry": _OBJECTIVES,
    "objectives.slopes": _OBJECTIVES,
    "objectives.with_reference": _OBJECTIVES,
    "anchor.engine": _ANCHOR,
    "anchor.engines": _ANCHOR,
    "anchor.forwards": _ANCHOR,
    "anchor.gap": _ANCHOR,
    "anchor.probe": _ANCHOR,
    "anchor.settings": _ANCHOR,
    "anchor.stand_ins": _ANCHOR,
    "anchor.streaming": _ANCHOR,
    "anchor.two_pass": _ANCHOR,
    "anchor.bank": _ANCHOR,
    "anchor.banked": _ANCHOR,
    "anchor.fill": _ANCHOR,
    "model.perturb": ("unit/model/test_perturb.py", "property/test_displacement.py"),
    "pairs.noise": _NOISE,
    "evaluate.length_control": _SCORE,
    "evaluate.logistic": _SCORE[1:3],
    "evaluate.length_data": _ALPACA,
    "evaluate.alpaca_annotations": _ALPACA,
}


def source_of(module: str) -> Path:
    return ROOT / "src" / "gapo" / (module.replace(".", "/") + ".py")


def files_for(module: str) -> list[str]:
    """Files, from the root of the project."""
    found: list[str] = []
    for name in TESTS[module]:
        path = ROOT / "tests" / name
        files = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
        found += [str(file.relative_to(ROOT)) for file in files if file.exists()]
    return found
