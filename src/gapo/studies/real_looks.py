"""What studies of a real language model see in a run, right after training: its weights are not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapo.studies.outcome import outcome
from gapo.studies.rows import Row, Rows
from gapo.studies.store import StoredRun, takes

if TYPE_CHECKING:
    from gapo.evaluate.subject import Subject

DRIFT_PAIRS = 32
REPLIES = 2
OURS = "courtesy"  # the only pairs of ours: words of others' pairs are not printed
OUTCOME = ("accuracy", "pairs", "likelihood_accuracy", "accuracy_before", "margin", "seconds", "steps", "flipped")
OTHER_KIND = 1000  # characters of llmbar's pairs: longer ones would take as long as training
TASKS = {"gsm8k": ("exact_match,flexible-extract", 30), "arc_challenge": ("acc_norm,none", 100)}
MAX_NEW_TOKENS = 128
FINDERS = ("weight", "margin", "length_term")


@takes(0.5)
def trained_on_noise(run: StoredRun) -> Rows:
    """Accuracy on clean pairs, drift, weights of clean and flipped pairs, doubts, and of our own pairs some replies.

    Of the start model what it tells of labels turned on purpose.
    """
    from gapo.studies.real_consensus_looks import told_by_the_start_model

    if not run.evals:
        return told_by_the_start_model(run)
    summary = {name: outcome(run)[0][name] for name in OUTCOME}
    return [{"what": "outcome", **summary, "kl": drift_on_held_out(run), **trusted(run)}, *replies_of(run)]


def trusted(run: StoredRun) -> Row:
    """Weights of clean and flipped pairs and, of a run that doubts labels, which it doubts."""
    from gapo.studies.consensus_looks import DOUBTED, doubts_of

    return {**weights_of(run), **(doubts_of(run) if run.recipe["objective"]["name"] in DOUBTED else {})}


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


@takes(18)
def trained_on_people(run: StoredRun) -> Rows:
    """Accuracy on all test pairs and by subset, on pairs of another kind, drift, and what is kept of two benchmarks."""
    from gapo.studies.real_pairs import Examined

    seen = Examined(run)
    rows = seen.accuracies(str(run.recipe["data"]["eval"])) + seen.accuracies("llmbar:test", OTHER_KIND)
    rows += tasks_of(seen.subject)
    if not run.evals:
        return rows
    summary = {name: outcome(run)[0][name] for name in ("seconds", "steps", "flipped")}
    return [*rows, {"what": "outcome", **summary, "kl": drift_on_held_out(run), **trusted(run)}]


def tasks_of(subject: Subject) -> Rows:
    """The first items of GSM8k and ARC-C by lm-eval; nothing where it is not installed."""
    from importlib.util import find_spec

    from gapo.evaluate.reasoning import TaskSettings, run_tasks
    from gapo.pairs.local_sets import data_folder

    if find_spec("lm_eval") is None:
        return []
    rows = []
    for task, (metric, items) in TASKS.items():
        settings = TaskSettings(data_folder(), limit=items, max_new_tokens=MAX_NEW_TOKENS)
        found = run_tasks(subject, (task,), settings)["tasks"][task]
        rows.append({"what": "task", "task": task, "items": found["n"], "score": found["metrics"][metric]["value"]})
    return rows


@takes(5)
def trained_on_judges(run: StoredRun) -> Rows:
    """Whether disputed pairs weigh less, and accuracy on held-out pairs where the judges agree and where not."""
    from gapo.diagnostics.agreement import disputed
    from gapo.diagnostics.intervals import flat
    from gapo.pairs.judged import judged_pairs
    from gapo.studies.real_pairs import Examined

    data = run.recipe["data"]
    rows = Examined(run).accuracies(str(data["eval"]), data["longest"])
    if not run.evals:
        return rows
    found = disputed(run.pairs, judged_pairs(data["train"]))
    weights = {**flat(found.weight), **flat(found.bottom_minus_top, "bottom_minus_top"), "prompts": found.prompts}
    rows += [{"what": "finder", **flat(finder)} for finder in found.finders]
    rows += [{"what": "tier", "tier": k, **flat(tier)} for k, tier in enumerate(found.tiers)]
    return [*rows, {"what": "outcome", "kl": drift_on_held_out(run), **weights_of(run), **weights}]
