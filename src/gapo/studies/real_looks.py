"""What studies of a real language model see in a run, right after training: its weights are not kept."""

from __future__ import annotations

from gapo.studies.outcome import outcome
from gapo.studies.rows import Row, Rows
from gapo.studies.store import StoredRun, takes

DRIFT_PAIRS = 32
REPLIES = 2
OURS = "courtesy"  # the only pairs of ours: words of others' pairs are not printed
OUTCOME = ("accuracy", "pairs", "likelihood_accuracy", "accuracy_before", "margin", "seconds", "steps", "flipped")
FINDERS = ("weight", "margin", "length_term")


@takes(0.5)
def trained_on_noise(run: StoredRun) -> Rows:
    """Accuracy on clean pairs, drift, the weights of clean and flipped pairs, and of our own pairs some replies."""
    summary = {name: outcome(run)[0][name] for name in OUTCOME}
    return [{"what": "outcome", **summary, "kl": drift_on_held_out(run), **weights_of(run)}, *replies_of(run)]


def drift_on_held_out(run: StoredRun, pairs: int = DRIFT_PAIRS) -> float:
    """KL(model || start) in nats a token of responses that nobody trained on."""
    from gapo.evaluate.drift import drift_of, responses_of
    from gapo.studies.probes import probed, trained_model

    data = probed(run)
    drift = drift_of(trained_model(run).eval(), data.start.eval(), responses_of(data.held_out[:pairs]), data.pad_id)
    return float((drift.model_base * drift.tokens).sum() / drift.tokens.sum())


def weights_of(run: StoredRun) -> Row:
    """Weights of clean and flipped pairs over the run, the flipped share by tier, and what finds the flipped ones."""
    from gapo.diagnostics.signals import finders
    from gapo.diagnostics.tables import column
    from gapo.diagnostics.tiers import as_marks, contrast, tiers
    from gapo.studies.probes import VALUES_ONLY

    weight = column(run.pairs, "weight")
    spread = {"weight_spread": float(weight.std() / weight.mean()), "seen": len(weight)}
    if not run.evals["noise"]["flipped"]:
        return spread
    flipped = as_marks(column(run.pairs, "flipped"))
    means = contrast(weight, flipped, draws=VALUES_ONLY)
    bottom, middle, top = (tier.rate.value for tier in tiers(weight, flipped, draws=VALUES_ONLY))
    areas = {f"{found.signal}_area": found.area.value for found in finders(run.pairs, signals=FINDERS)}
    return {
        **spread,
        "clean_weight": means.others.value,
        "flipped_weight": means.marked.value,
        "relative": means.relative.value,
        "bottom": bottom,
        "middle": middle,
        "top": top,
        "bottom_minus_top": bottom - top,
        **areas,
    }


def replies_of(run: StoredRun) -> Rows:
    """The first replies before and after, in one line each."""
    if run.recipe["data"]["train"] != OURS or run.recipe["train"]["seed"]:
        return []
    return [
        {"what": "reply", **{key: " ".join(str(reply[key]).split()) for key in ("prompt", "before", "after")}}
        for reply in run.evals["replies"][:REPLIES]
    ]
