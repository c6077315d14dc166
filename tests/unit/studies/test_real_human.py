"""The sentences about human preferences: what test pairs alone do to an accuracy is said beside it."""

import numpy as np
import pytest

from gapo.studies.catalogue import BY_NAME

STUDY = BY_NAME["real/human"]


def rows(accuracies, pairs=400):
    place = {"what": "accuracy", "set": "hh:test", "subset": "all", "rate": 0.2, "seed": 0, "run": "0"}
    return [
        {**place, "method": method, "accuracy": share, "likelihood_accuracy": 0.5, "pairs": pairs}
        for method, share in accuracies.items()
    ]


def test_an_accuracy_has_the_standard_error_of_a_share():
    ranked, against, start = STUDY.findings(STUDY.tables(rows({"gapo": 0.54, "simpo": 0.52, "dpo": 0.5})))
    drawn = np.random.default_rng(0).binomial(400, 0.5, size=200_000) / 400
    assert "highest for GAPO (54.0 %) and lowest for DPO (50.0 %)" in ranked
    assert float(ranked.split("standard error of ")[1].split()[0]) == pytest.approx(100 * drawn.std(), abs=0.05)
    assert "+2.0 points, one seed" in against
    assert start == "The start model was not measured yet."


def test_without_a_run_nothing_is_said_of_errors():
    assert "standard error" not in STUDY.findings(STUDY.tables([]))[0]
