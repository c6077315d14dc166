"""Every study by name."""

from __future__ import annotations

from collections.abc import Sequence

from gapo.errors import InputError, did_you_mean
from gapo.studies.ablations import ABLATIONS
from gapo.studies.alignment import ALIGNMENT
from gapo.studies.confounds import CONFOUNDS
from gapo.studies.consensus import CONSENSUS
from gapo.studies.curvature import CURVATURE
from gapo.studies.efficiency import EFFICIENCY
from gapo.studies.judges import JUDGES
from gapo.studies.labels import LABELS
from gapo.studies.mechanism import MECHANISM
from gapo.studies.noise import NOISE
from gapo.studies.probe import PROBE
from gapo.studies.real_consensus import REAL_CONSENSUS
from gapo.studies.real_human import REAL_HUMAN
from gapo.studies.real_judges import REAL_JUDGES
from gapo.studies.real_noise import REAL_NOISE
from gapo.studies.real_peers import REAL_PEERS
from gapo.studies.real_probe import REAL_PROBE
from gapo.studies.real_tuning import REAL_TUNING
from gapo.studies.scale import MINI, SMOLLM2, Scale
from gapo.studies.selection import SELECTION
from gapo.studies.study import Study
from gapo.studies.theory import THEORY
from gapo.studies.tuning import TUNING

ALL = "all"  # but tuning, whose choices the others use, and what is beyond the paper; of the lab also without what
# needs a real language model
STUDIES = (
    ALIGNMENT,
    NOISE,
    MECHANISM,
    PROBE,
    SELECTION,
    ABLATIONS,
    CURVATURE,
    EFFICIENCY,
    THEORY,
    CONFOUNDS,
    CONSENSUS,
    LABELS,
    JUDGES,
)
BEYOND = (CONSENSUS, LABELS)  # the paper: ours
REAL = "real"  # a real language model on real preferences: a queue of hours, in this order
REAL_STUDIES = (REAL_TUNING, REAL_NOISE, REAL_CONSENSUS, REAL_PROBE, REAL_JUDGES, REAL_HUMAN, REAL_PEERS)
CATALOGUE = {study.name: study for study in STUDIES}
BY_NAME = {**CATALOGUE, TUNING.name: TUNING, **{study.name: study for study in REAL_STUDIES}}


def scale_for(name: str, scale: Scale) -> Scale:
    """Long studies have one scale, whatever is asked for."""
    return SMOLLM2 if name == REAL or (name in BY_NAME and BY_NAME[name].long) else scale


def tuning_for(studies: Sequence[Study]) -> Study | None:
    """The study that chooses the learning rates of these; None where they are such a study themselves."""
    chooser = REAL_TUNING if studies[0].long else TUNING
    return None if list(studies) == [chooser] else chooser


def studies_named(name: str, scale: Scale = MINI) -> list[Study]:
    if name == ALL:
        return [study for study in STUDIES if study not in BEYOND and (scale is not MINI or not study.real_model)]
    if name == REAL:
        return list(REAL_STUDIES)
    if name not in BY_NAME:
        raise InputError(f"there is no study {name!r}; {did_you_mean(name, [*BY_NAME, REAL, ALL])}")
    return [BY_NAME[name]]
