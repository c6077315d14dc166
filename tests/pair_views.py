"""Views of pairs made from a seed, for tests of the pages that show them."""

from __future__ import annotations

import numpy as np

from gapo.report.elements import Section, document
from gapo.report.explorer import explorer
from gapo.report.pair_view import PairColumn, PairHistory, PairText, PairView

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "rain", "falls", "on", "hills")
BETA, GAMMA = 2.5, 0.1


def numbers(key: str, title: str, values) -> PairColumn:
    return PairColumn(
        key, title, "number", [float(v) if np.isfinite(v) else None for v in values], f"What {key} means."
    )


def made_view(pairs: int = 60, seed: int = 0, *, texts: bool = True, history: bool = True) -> PairView:
    """Numbers of GAPO's form: own and others' terms add up to the gap but for curvature, the weight is of the gap."""
    rng = np.random.default_rng(seed)
    flipped = rng.random(pairs) < 0.25
    tokens = rng.integers(3, 60, (2, pairs))
    length = (1 / tokens).sum(0)
    norm = np.sqrt(length) * rng.lognormal(2, 0.3, pairs)
    own, others = 0.01 * norm**2, rng.normal(0.02, 0.03, pairs) - 0.03 * flipped
    gap = (own + others) * 0.9
    margin = rng.normal(0.3, 0.4, pairs) - 0.4 * flipped
    margin[pairs // 2] = np.nan  # one pair whose margin is not known
    columns = [
        numbers("weight", "Weight", BETA / (1 + np.exp(BETA * gap - GAMMA))),
        numbers("gap", "Gap", gap),
        numbers("margin", "Margin", margin),
        numbers("grad_norm", "Gradient norm", norm),
        numbers("gap_self", "Own gap", own),
        numbers("gap_others", "Others' gap", others),
        numbers("self_share", "Own share", own / (own + others)),
        numbers("curvature", "Curvature", own + others - gap),
        numbers("length_term", "Length term", length),
        numbers("chosen_tokens", "Chosen tokens", tokens[0]),
        numbers("rejected_tokens", "Rejected tokens", tokens[1]),
        PairColumn("subset", "Subset", "word", [("chat", "code", "news")[i % 3] for i in range(pairs)]),
        PairColumn("flipped", "Flipped", "truth", [None if i % 10 == 9 else bool(f) for i, f in enumerate(flipped)]),
    ]
    return PairView(
        ids=[f"pair-{i:05d}" for i in range(pairs)],
        columns=columns,
        texts=[made_text(rng, i) for i in range(pairs)] if texts else (),
        history=[made_history(rng) for _ in range(pairs)] if history else (),
        colours=("flipped", "subset", "weight"),
        beta=BETA,
        gamma=GAMMA,
        notes=("These pairs are made up.",),
    )


def made_text(rng: np.random.Generator, place: int) -> PairText:
    chosen = [str(word) for word in rng.choice(WORDS, int(rng.integers(4, 30)))]
    rejected = [word if rng.random() < 0.7 else str(rng.choice(WORDS)) for word in chosen]
    return PairText(f"Prompt number{place} asks?", " ".join(chosen), " ".join(rejected))


def made_history(rng: np.random.Generator) -> PairHistory:
    steps = [10, 60, 110, 160]
    series = {key: [float(v) for v in rng.normal(1, 0.2, 4)] for key in ("weight", "gap", "margin")}
    return PairHistory(steps, {**series, "gap": [0.5, None, 0.25, 0.125]})


def made_page(view: PairView, title: str = "A page of pairs") -> str:
    return document(title, "", [Section("pairs", "Pairs", explorer(view))])
