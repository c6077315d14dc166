"""What a real model can tell of wrong labels before it is trained."""

from __future__ import annotations

from gapo.studies.consensus_looks import SIZES, areas_by_size
from gapo.studies.consensus_tables import NOISY
from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun

SHOWN = 400  # pairs of each set that the start model is looked at with
GRADIENTS = ("top", "full")


def told_by_the_start_model(run: StoredRun) -> Rows:
    """Areas by how many pairs lead, by what is looked at, and for disputed pairs where judges are known."""
    import numpy as np

    from gapo.consensus.judging import judged, sketches_of
    from gapo.consensus.scope import AGREED
    from gapo.diagnostics.intervals import bootstrap
    from gapo.diagnostics.ranking import area_under_roc
    from gapo.pairs.judges_wheel import AGREE, DISAGREE
    from gapo.studies.probes import probed
    from gapo.training.dataset import prompt_numbers

    data, seed = probed(run), int(run.recipe["train"]["seed"])
    prompts = prompt_numbers(data.pairs)
    subsets = np.array(subsets_of(run, [pair.id for pair in data.pairs]))
    known = np.isin(subsets, (AGREE, DISAGREE))
    rows: Rows = []
    said, lead = run.recipe["train"].get("consensus_scope"), run.recipe["train"].get("consensus_lead", AGREED)
    for scope in GRADIENTS if said is None else (said,):
        sketches = sketches_of(data.start, data.pairs, data.pad_id, scope=scope)
        for rate in NOISY:
            areas = areas_by_size(sketches, prompts, rate, seed, SIZES if scope != "top" else (), lead=lead)
            told = {"what": "told", "truth": "turned at random", "rate": rate, "scope": scope}
            rows += [{**told, "leaders": size, "area": area} for size, area in areas.items()]
        if known.any():
            alignment = judged(sketches, prompts, lead).alignment.numpy()
            by_prompt = prompts.numpy()[known]
            area = bootstrap(area_under_roc, -alignment[known], subsets[known] == DISAGREE, clusters=by_prompt)
            disputed = {"what": "told", "truth": "disputed", "rate": 0.0, "scope": scope, "leaders": len(prompts)}
            rows.append({**disputed, "area": area.value, "least": area.low, "most": area.high})
    return rows


def subsets_of(run: StoredRun, ids: list[str]) -> list[str]:
    """What the data say of these pairs beyond their label."""
    from gapo.pairs.formats import load_pairs

    named = {pair.id: pair.subset or "" for pair in load_pairs(run.recipe["data"]["train"])}
    return [named.get(name, "") for name in ids]
