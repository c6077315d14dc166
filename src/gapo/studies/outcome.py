"""What a training run came to: the row that most studies are made of."""

from __future__ import annotations

from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun


def outcome(run: StoredRun) -> Rows:
    """Accuracy on clean pairs by the method's own reward and by likelihood, and the lab's true measures."""
    evals, after, measures = run.evals, run.evals["after"], run.evals["measures"]
    return [
        {
            "accuracy": after["accuracy"],
            "pairs": evals["pairs"],
            "likelihood_accuracy": after["likelihood_accuracy"],
            "margin": after["margin"],
            "accuracy_before": evals["before"]["accuracy"],
            "win_rate": measures.get("win_rate"),
            "lc_win_rate": measures.get("lc_win_rate"),
            "skill": measures.get("skill_kept"),
            "start_skill": measures.get("start_skill"),
            "drift": measures.get("drift"),
            "reply_tokens": measures.get("mean_reply_tokens"),
            "seconds": evals["seconds"],
            "steps": evals["steps"],
            "peak_bytes": run.facts.get("peak_bytes"),
            "flipped": evals["noise"]["flipped"],
        }
    ]
