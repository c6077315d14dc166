"""Every study by name."""

from __future__ import annotations

from gapo.errors import InputError, did_you_mean
from gapo.studies.ablations import ABLATIONS
from gapo.studies.alignment import ALIGNMENT
from gapo.studies.confounds import CONFOUNDS
from gapo.studies.curvature import CURVATURE
from gapo.studies.efficiency import EFFICIENCY
from gapo.studies.judges import JUDGES
from gapo.studies.mechanism import MECHANISM
from gapo.studies.noise import NOISE
from gapo.studies.probe import PROBE
from gapo.studies.scale import MINI, Scale
from gapo.studies.selection import SELECTION
from gapo.studies.study import Study
from gapo.studies.theory import THEORY
from gapo.studies.tuning import TUNING

ALL = "all"  # but tuning, whose choices the others use; of the lab also without what needs a real language model
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
    JUDGES,
)
CATALOGUE = {study.name: study for study in STUDIES}
BY_NAME = {**CATALOGUE, TUNING.name: TUNING}


def studies_named(name: str, scale: Scale = MINI) -> list[Study]:
    if name == ALL:
        return [study for study in STUDIES if scale is not MINI or not study.real_model]
    if name not in BY_NAME:
        raise InputError(f"there is no study {name!r}; {did_you_mean(name, [*BY_NAME, ALL])}")
    return [BY_NAME[name]]
