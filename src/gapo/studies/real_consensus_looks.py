"""What the study of wrong labels and a real model sees: of a run who was doubted, of the start model who could be."""

from __future__ import annotations

from gapo.studies.consensus_looks import DOUBTED, SIZES, areas_by_size, doubts_of
from gapo.studies.consensus_tables import NOISY
from gapo.studies.real_looks import OUTCOME, drift_on_held_out
from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun, takes

SHOWN = 400  # pairs of each set that the start model is looked at with
SCOPES = ("top", "full")


@takes(1)
def labels_of_a_real_model(run: StoredRun) -> Rows:
    """The outcome of a run with its doubts; what the start model tells of labels turned on purpose."""
    from gapo.studies.outcome import outcome

    if not run.evals:
        return told_by_the_start_model(run)
    summary = {name: outcome(run)[0][name] for name in OUTCOME}
    doubts = doubts_of(run) if run.recipe["objective"]["name"] in DOUBTED else {}
    return [{"what": "outcome", **summary, "kl": drift_on_held_out(run), **doubts}]


def told_by_the_start_model(run: StoredRun) -> Rows:
    """Areas by how many pairs lead, by whose gradients are looked at, and for disputed pairs where judges are known."""
    import numpy as np
    import torch

    from gapo.consensus.judging import judged, sketches_of
    from gapo.diagnostics.ranking import area_under_roc
    from gapo.pairs.judges_wheel import AGREE, DISAGREE
    from gapo.studies.probes import probed
    from gapo.training.dataset import prompt_number

    data, seed = probed(run), int(run.recipe["train"]["seed"])
    prompts = torch.tensor([prompt_number(pair) for pair in data.pairs], dtype=torch.long)
    subsets = np.array(subsets_of(run, [pair.id for pair in data.pairs]))
    known = np.isin(subsets, (AGREE, DISAGREE))
    rows: Rows = []
    for scope in SCOPES:
        sketches = sketches_of(data.start, data.pairs, data.pad_id, scope=scope)
        for rate in NOISY:
            areas = areas_by_size(sketches, prompts, rate, seed, SIZES if scope == "full" else ())
            told = {"what": "told", "truth": "turned at random", "rate": rate, "scope": scope}
            rows += [{**told, "leaders": size, "area": area} for size, area in areas.items()]
        if known.any():
            alignment = judged(sketches, prompts).alignment.numpy()
            area = area_under_roc(-alignment[known], subsets[known] == DISAGREE)
            disputed = {"what": "told", "truth": "disputed", "rate": 0.0, "scope": scope}
            rows.append({**disputed, "leaders": len(prompts), "area": area})
    return rows


def subsets_of(run: StoredRun, ids: list[str]) -> list[str]:
    """What the data say of these pairs beyond their label."""
    from gapo.pairs.formats import load_pairs

    named = {pair.id: pair.subset or "" for pair in load_pairs(run.recipe["data"]["train"])}
    return [named.get(name, "") for name in ids]
