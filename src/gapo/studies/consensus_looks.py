"""What the study of consensus sees: how well wrong labels are found, in a run and by the start model alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapo.studies.consensus_tables import NOISY
from gapo.studies.outcome import outcome
from gapo.studies.rows import Row, Rows
from gapo.studies.store import StoredRun, takes

if TYPE_CHECKING:
    from torch import Tensor, nn

SIZES = tuple(16 * 2**k for k in range(7))  # pairs in the direction; all of them come last
SUSPICIOUS = 0.1  # the share of pairs that somebody might read again
LAYERS = 8  # no more of them one by one: a real model has thirty
DOUBTED = ("consensus", "consensus_dpo", "consensus_gapo")


@takes(1)
def labels_judged(run: StoredRun) -> Rows:
    """Of a run its outcome and, if it doubts labels, which; of the start model what directions and layers tell."""
    if not run.evals:
        return told_at_the_start(run)
    doubts = doubts_of(run) if run.recipe["objective"]["name"] in DOUBTED else {}
    return [{"what": "run", **outcome(run)[0], **doubts}]


def doubts_of(run: StoredRun) -> Row:
    """The estimated rate beside the true one; who is doubted, and what clean and flipped pairs weigh.

    A weight is that in the step's gradient, so a pair whose label is turned round weighs less than nothing.
    """
    from gapo.diagnostics.ranking import area_under_roc, band
    from gapo.diagnostics.tables import column
    from gapo.diagnostics.tiers import as_marks

    weight, wrong = column(run.pairs, "weight"), column(run.pairs, "wrong")
    flipped = as_marks(column(run.pairs, "flipped"))
    found = {"estimated": run.steps[-1]["noise_rate"], "true_rate": float(flipped.mean())}
    if not flipped.any():
        return {**found, "clean_weight": float(weight.mean())}
    suspicious = band(wrong, 1 - SUSPICIOUS, 1)
    return {
        **found,
        "area": area_under_roc(wrong, flipped),
        "precision": float(suspicious @ flipped / suspicious.sum()),
        "clean_weight": float(weight[~flipped].mean()),
        "flipped_weight": float(weight[flipped].mean()),
    }


def told_at_the_start(run: StoredRun) -> Rows:
    """Areas by the number of pairs that lead, and by what is looked at: states, or the gradients of some layers.

    Labels are turned here, not in the recipe: a turned pair's sketch is the same with another sign, so that one pass
    serves all rates.
    """

    from gapo.consensus.judging import sketches_of
    from gapo.consensus.scope import AGREED, STATES
    from gapo.studies.probes import probed
    from gapo.training.dataset import prompt_numbers

    data, seed = probed(run), int(run.recipe["train"]["seed"])
    prompts = prompt_numbers(data.pairs)
    rows: Rows = []
    for layer, scope in scopes_of(data.start).items():
        sketches = sketches_of(data.start, data.pairs, data.pad_id, scope=scope)
        for rate in NOISY:
            areas = areas_by_size(sketches, prompts, rate, seed, SIZES if scope == STATES else (), lead=AGREED)
            if scope == STATES:
                rows += [{"what": "size", "rate": rate, "leaders": size, "area": a} for size, a in areas.items()]
            rows.append({"what": "layer", "rate": rate, "layer": layer, "area": areas[len(data.pairs)]})
    return rows


def scopes_of(model: nn.Module) -> dict[str, str]:
    """States as in a run; gradients of each layer alone, of many only some, of the head, the top layers, and all."""
    layers = int(model.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
    some = range(0, layers, -(-layers // LAYERS))
    each = {f"gradients of layer {k + 1} of {layers}": rf"\.{k}\." for k in some}
    groups = {"head": "lm_head", "the top layers": "top", "all layers": "full"}
    return {"states": "states", **each, **{f"gradients of {name}": scope for name, scope in groups.items()}}


def areas_by_size(
    sketches: Tensor, prompts: Tensor, rate: float, seed: int, sizes: tuple[int, ...] = SIZES, *, lead: str
) -> dict[int, float]:
    """How well alignment finds labels turned at random, by how many pairs lead; measured on pairs that do not.

    All pairs come last: there each is judged by those of other prompts, and all are measured.
    """
    import torch

    from gapo.consensus.peers import aligned, as_rows
    from gapo.diagnostics.ranking import area_under_roc

    count, draw = len(sketches), torch.Generator().manual_seed(seed)
    turned = torch.randperm(count, generator=draw) < round(rate * count)
    order = torch.randperm(count, generator=draw)  # larger directions hold the smaller ones
    rows = as_rows(torch.where(turned[:, None], -sketches, sketches), lead)
    found = {}
    for size in (*(size for size in sizes if size < count), count):
        leaders = order < size
        judged = ~leaders if size < count else leaders
        alignment = aligned(rows, prompts, lead, leaders)[judged]
        found[size] = area_under_roc(-alignment.numpy(), turned[judged].numpy())
    return found
