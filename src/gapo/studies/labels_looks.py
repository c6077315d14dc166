"""What tells wrong labels as training goes on, and in start models of several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapo.studies.consensus_tables import NOISY
from gapo.studies.rows import Row, Rows
from gapo.studies.store import StoredRun, takes

if TYPE_CHECKING:
    from torch import nn

    from gapo.studies.probes import Probed

WIDTHS = {32: 2, 64: 3, 112: 3, 224: 4}  # of the start model, with its layers; 112 is the lab's own
STATES, GRADIENTS, MARGIN = "states", "gradients", "margin"
SCOPES = {STATES: "states", GRADIENTS: "full"}


@takes(60)
def told_over_training(run: StoredRun) -> Rows:
    """What each kept model of a run tells; of a cell without a run what start models of all sizes tell."""
    from gapo.model.load import load_policy
    from gapo.studies.probes import models_by_epoch, probed

    data = probed(run)
    if not run.evals:
        return told_by_size(run, data)
    rows: Rows = []
    for epoch, name in models_by_epoch(run).items():
        model = load_policy(str(name), say=lambda _: None).model
        rows += [{"what": "moment", "epoch": epoch, **told} for told in told_by(model, data)]
    return rows


def told_by(model: nn.Module, data: Probed) -> Rows:
    """How well the wrong labels of these pairs are found: by margin, and by the others, with the estimated share."""
    import numpy as np

    from gapo.consensus.judging import judged, sketches_of
    from gapo.consensus.scope import ALL
    from gapo.diagnostics.ranking import area_under_roc
    from gapo.model.reference import logps_of
    from gapo.training.dataset import prompt_numbers

    flipped = np.array([bool(pair.flipped) for pair in data.pairs])
    margin = logps_of(model.eval(), data.pairs, data.pad_id).margin
    rows: Rows = [{"signal": MARGIN, "area": area_under_roc(-margin.double().numpy(), flipped)}]
    for signal, scope in SCOPES.items():
        sketches = sketches_of(model, data.pairs, data.pad_id, scope=scope, cache=False)
        found = judged(sketches, prompt_numbers(data.pairs), ALL)
        area = area_under_roc(-found.alignment.numpy(), flipped)
        rows.append({"signal": signal, "area": area, "estimated": found.mixture.rate})
    return rows


def told_by_size(run: StoredRun, data: Probed) -> Rows:
    """Start models of several widths, each trained from nothing as the lab's own was, on labels turned at random."""
    from gapo.consensus.judging import sketches_of
    from gapo.consensus.scope import ALL
    from gapo.lab.learn import Schedule, build_model, learn
    from gapo.lab.split import split_requests
    from gapo.lab.tokenizer import build_tokenizer
    from gapo.studies.consensus_looks import areas_by_size
    from gapo.training.dataset import prompt_numbers

    seed, tokenizer = int(run.recipe["train"]["seed"]), build_tokenizer()
    rows: Rows = []
    for width, layers in WIDTHS.items():
        model = build_model(tokenizer, seed, width, layers)
        loss = learn(model, tokenizer, split_requests(0).supervised, Schedule(), seed)
        weights = sum(p.numel() for p in model.parameters())
        size: Row = {"what": "size", "width": width, "weights": weights, "loss": loss}
        for signal, scope in SCOPES.items():
            sketches = sketches_of(model, data.pairs, data.pad_id, scope=scope, cache=False)
            for rate in NOISY:
                areas = areas_by_size(sketches, prompt_numbers(data.pairs), rate, seed, (), lead=ALL)
                rows.append({**size, "signal": signal, "rate": rate, "area": areas[len(data.pairs)]})
    return rows
