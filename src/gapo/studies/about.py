"""What a page says about how it was made."""

from __future__ import annotations

import platform
from typing import Any

from gapo.studies.rows import Rows
from gapo.studies.study import Study
from gapo.studies.tasks import Setting, asked_for
from gapo.studies.workers import cores


def about_study(study: Study, setting: Setting, rows: Rows | None = None) -> dict[str, Any]:
    """Scale, seeds, tuned methods, command and versions; no host and no path.

    Of a long study `rows` are what there is so far: only their seeds count, beside the runs that are planned.
    """
    from gapo.runs.environment import package_versions

    versions = package_versions()
    seeds = study.seed_list(setting.scale, setting.seeds)
    methods = {cell.method for cell in study.grid(setting.scale)}
    so_far: dict[str, Any] = {}
    if study.long and rows is not None:
        planned = {asked.address for asked, _ in asked_for(study, setting)}
        so_far = {"seeds": sorted({row["seed"] for row in rows}), "planned": len(planned)}
    return {
        "scale": setting.scale.name,
        "seeds": seeds,
        "tuned": sorted(methods & set(setting.tuned)),
        "command": f"gapo study {study.name} --scale {setting.scale.name} --seeds {len(seeds)}",
        "version": versions["gapo"],
        "torch": versions["torch"],
        "python": platform.python_version(),
        "cores": cores(),
        **so_far,
    }
