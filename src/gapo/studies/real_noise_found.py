"""What the runs with wrong labels came to, in sentences and beside the paper."""

from __future__ import annotations

from typing import Any

from gapo.studies import paper
from gapo.studies.names import method_name
from gapo.studies.noise import PAPER_GAIN
from gapo.studies.rows import Tables, first, where
from gapo.studies.sentences import compared, kept_as, percent, plain, ranking
from gapo.studies.study import Claim

TWENTY: dict[str, Any] = {"data": "polite", "flips": "at random", "rate": 0.2}
PLACE = "polite pairs with 20 % flipped at random"
FLIPPED_WEIGHT = "Weight of flipped pairs against clean ones"
REASON = "an anchor gap is mostly the pair's own gradient norm, which a turned label leaves as it is (see `confounds`)"


def findings(found: Tables) -> list[str]:
    weights = first(found["weights"], **TWENTY, method="gapo")
    against = first(found["gapo_minus"], **TWENTY, method="simpo")
    return [
        ranking(where(found["accuracy"], **TWENTY), "accuracy", f"accuracy on {PLACE}"),
        "The weights of flipped pairs were not measured yet."
        if weights is None
        else f"GAPO's weights of flipped pairs differ by {percent(weights['relative'])} from those of clean ones; a "
        f"low weight finds flipped pairs with an area under the ROC curve of {plain(weights['weight_area'])}, a low "
        f"margin with {plain(weights['margin_area'])} ({weights['seeds']} of 3 seeds).",
        compared("gapo", "simpo", kept_as(against, "accuracy"), f"accuracy on {PLACE}"),
    ]


def claims(found: Tables) -> list[Claim]:
    """The paper's robust method is above the others where labels are wrong, and trusts flipped pairs less."""
    weights = first(found["weights"], **TWENTY, method="gapo")
    return [
        *(
            Claim(
                f"GAPO minus {method_name(other)}, 20 % flipped at random",
                kept_as(first(found["gapo_minus"], **TWENTY, method=other), "accuracy"),
                PAPER_GAIN["at random", 0.2, other],
                reason=REASON,
            )
            for other in ("dpo", "dr_dpo")
        ),
        Claim(FLIPPED_WEIGHT, kept_as(weights, "relative"), paper.FLIPPED_WEIGHT, upward=False, reason=REASON),
    ]
