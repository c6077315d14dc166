"""What a page says about how it was made."""

from __future__ import annotations

import platform
from typing import Any

from gapo.studies.study import Study
from gapo.studies.tasks import Setting
from gapo.studies.workers import cores


def about_study(study: Study, setting: Setting) -> dict[str, Any]:
    """Scale, seeds, tuned methods, command and versions; no host and no path."""
    from gapo.runs.environment import package_versions

    versions = package_versions()
    seeds = study.seed_list(setting.scale, setting.seeds)
    methods = {cell.method for cell in study.grid(setting.scale)}
    return {
        "scale": setting.scale.name,
        "seeds": seeds,
        "tuned": sorted(methods & set(setting.tuned)),
        "command": f"gapo study {study.name} --scale {setting.scale.name} --seeds {len(seeds)}",
        "version": versions["gapo"],
        "torch": versions["torch"],
        "python": platform.python_version(),
        "cores": cores(),
    }
