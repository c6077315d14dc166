"""Ours, not the paper's: labels judged by the direction of all other pairs, and training that knows the verdict."""

from __future__ import annotations

from typing import Any

from gapo.studies.columns import ACCURACY, LC, NAME, in_points
from gapo.studies.consensus_found import findings
from gapo.studies.consensus_looks import labels_judged
from gapo.studies.consensus_tables import NOISY, OTHERS, OURS, USUAL, WITH_DPO, tables
from gapo.studies.exhibits import PERCENT, PLAIN, POINTS, SHARE, WORDS, Column, Curves, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.noise import FEWER, FLIPS, KINDS, RATE
from gapo.studies.scale import Scale
from gapo.studies.study import Study

BETWEEN = (0.1, 0.3)  # of ours alone, to see whether the estimated rate follows the true one
LEAD = {"train.consensus_lead": "agreed"}  # said in every recipe: runs judged otherwise are other runs
JUDGED = {"train.consensus_scope": "states", **LEAD}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "drop": (OURS, {**JUDGED, "objective.correct": False}),
    "all directions": (OURS, {"train.consensus_scope": "states", "train.consensus_lead": "all"}),
    "all gradients": (OURS, {"train.consensus_scope": "full", **LEAD}),
    "running": (OURS, {"train.consensus_judge": "running"}),
    "top layers": (OURS, {"train.consensus_scope": "top", **LEAD}),
    "head": (OURS, {"train.consensus_scope": "lm_head", **LEAD}),
    "GAPO's gap": ("consensus_gapo", JUDGED),
}


def grid(scale: Scale) -> list[Cell]:
    """The cells of `noise` where it has them, so that runs are shared."""
    usual = [(method, kind, rate) for kind in KINDS for method in (OURS, *OTHERS) for rate in FEWER]
    usual += [(WITH_DPO, "random", rate) for rate in FEWER]
    usual += [(OURS, "random", rate) for rate in BETWEEN]
    return [
        *(_cell(method, kind, rate) for method, kind, rate in usual),
        *(
            _cell(method, "random", rate, variant, changes)
            for variant, (method, changes) in VARIANTS.items()
            for rate in NOISY
        ),
        Cell(OURS, JUDGED, {"variant": "start model"}, trained=False),
    ]


def _cell(method: str, kind: str, rate: float, variant: str = USUAL, changes: dict[str, Any] | None = None) -> Cell:
    flips = {"noise.kind": kind, "noise.rate": rate} if rate else {}
    if changes is None:
        changes = {} if method in OTHERS else JUDGED
    return Cell(method, {**flips, **changes}, {"flips": KINDS[kind], "rate": rate, "variant": variant})


VARIANT, LINE = Column("variant", "variant", WORDS), Column("line", "share of wrong labels", WORDS)
AREA = Column("area", "area under ROC", PLAIN)
DOUBTS = (
    Column("estimated", "estimated share"),
    AREA,
    Column("precision", "flipped among the 10 % most doubted", PERCENT),
    Column("clean_weight", "weight, clean", PLAIN),
    Column("flipped_weight", "weight, flipped", PLAIN),
)
LEADERS, POWER = Column("leaders", "pairs that lead", PLAIN), Column("log_leaders", "pairs that lead, log2", PLAIN)
CONSENSUS = Study(
    name="consensus",
    title="Wrong labels found by the other pairs",
    question="Can wrong labels be found from the other pairs' direction, and does training that knows them do better?",
    grid=grid,
    observe=labels_judged,
    tables=tables,
    findings=findings,
    differs="The method is ours and not in the paper, so there is nothing to set beside it. It is compared with SimPO, "
    "which it is but for the doubt, with methods made for wrong labels, and with GAPO, on the runs of `noise`. It was "
    "not tuned: it has SimPO's learning rate and knobs, with DPO's loss DPO's, with GAPO's gap GAPO's. 40 % flipped by "
    "length is where it must fail, said before looking: the flips follow a rule that pairs share, so the others lead "
    "astray together. Areas by pairs and by layers are the start model's, on labels turned at random, measured on "
    "pairs that do not lead, or, where all lead, on each by those of other prompts. The lab's head is its embedding.",
    exhibits=(
        Curves("accuracy", "accuracy", "Accuracy on clean pairs", RATE, ACCURACY, NAME, FLIPS),
        Pivot("accuracy", "Accuracy of each method", (FLIPS, RATE), NAME, ACCURACY),
        Sheet(
            "consensus_minus",
            "Consensus minus each method, on the same seeds, in points",
            (FLIPS, RATE, NAME, in_points(ACCURACY), in_points(LC)),
        ),
        Sheet(
            "dpo_minus",
            "Consensus+DPO minus each method, on the same seeds, in points",
            (FLIPS, RATE, NAME, in_points(ACCURACY), in_points(LC)),
        ),
        Curves(
            "estimates", "estimates", "Estimated and true share of wrong labels", RATE, Column("share", "share"), LINE
        ),
        Sheet("rates", "What is doubted", (FLIPS, Column("true_rate", "true share", SHARE), *DOUBTS)),
        Curves("sizes", "sizes", "Who finds flips", POWER, AREA, Column("labels", "labels", WORDS)),
        Sheet("sizes", "By the number of pairs in the direction", (RATE, LEADERS, AREA)),
        Sheet("layers", "By what is looked at", (RATE, Column("layer", "judged by", WORDS), AREA)),
        Sheet("variants", "Variants", (RATE, VARIANT, ACCURACY, Column("gain", "minus as it is", POINTS), *DOUBTS)),
    ),
)
