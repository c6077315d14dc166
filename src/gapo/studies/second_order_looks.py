"""What curvature and theory see of a run's model, on held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapo.studies.held_out import held_out, model_of, start_of
from gapo.studies.rows import Row, Rows
from gapo.studies.store import StoredRun, takes

if TYPE_CHECKING:
    from torch import nn

    from gapo.objectives import Objective
    from gapo.pairs.encode import EncodedPair

HEAD, EVERY = "LM head", "every parameter"
OWN, COMMON = "its own", "SimPO's"
HEAD_PAIRS, EVERY_PAIRS, THEORY_PAIRS = 64, 16, 16
LARGEST = 5_000_000  # weights: of larger models the head alone


@takes(25)
def spectra(run: StoredRun) -> Rows:
    """The ends of the loss Hessian's spectrum: head and every parameter, the method's own loss and one for all."""
    from gapo.objectives import get_objective
    from gapo.runs.run import config_from

    policy = model_of(run)
    model, pad = policy.model.eval(), int(policy.tokenizer.pad_token_id)
    pairs = held_out(run, policy.tokenizer, HEAD_PAIRS)
    losses = {OWN: config_from(run.recipe).chosen_objective(), COMMON: get_objective("simpo")}
    parts = {HEAD: pairs, EVERY: pairs[:EVERY_PAIRS]}
    if model.num_parameters() > LARGEST:
        del parts[EVERY]
    return [
        {"part": part, "loss": words, "pairs": len(chosen), **_ends(run, model, chosen, pad, loss, part)}
        for part, chosen in parts.items()
        for words, loss in losses.items()
    ]


def _ends(run: StoredRun, model: nn.Module, pairs: Sequence[EncodedPair], pad: int, loss: Objective, part: str) -> Row:
    from gapo.diagnostics.second_order import head_hessian, hessian, mean_loss
    from gapo.diagnostics.spectrum import extreme_eigenvalues
    from gapo.pairs.collate import collate

    batch = collate(pairs, pad)
    share = mean_loss(loss, len(batch), _needs(run, model, pairs, pad, loss))
    if part == HEAD:
        matrix = head_hessian(model, batch, share)
    else:
        matrix = hessian(model, batch, share, [p for p in model.parameters() if p.requires_grad])
    found = extreme_eigenvalues(matrix)
    return {
        "lambda_max": found.lambda_max,
        "top_mean": found.top_mean,
        "lambda_min": found.lambda_min,
        "off": found.residual,
        "products": found.products,
    }


def _needs(run: StoredRun, model: nn.Module, pairs: Sequence[EncodedPair], pad: int, loss: Objective) -> dict[str, Any]:
    """What a loss asks for beside the policy: the start model's log-probs, or those at the anchor of these pairs."""
    from gapo.anchor.engines import probe
    from gapo.model.reference import logps_of
    from gapo.pairs.collate import collate
    from gapo.runs.run import config_from

    needs: dict[str, Any] = {}
    if "reference" in loss.needs:
        needs["reference"] = logps_of(start_of(run).model, pairs, pad)
    if "anchor" in loss.needs:
        needs["anchor"] = probe(model, [collate(pairs, pad)], config_from(run.recipe).anchor()).anchor
    return needs


@takes(35)
def expansions(run: StoredRun) -> Rows:
    """Gaps at nine radii in float64 beside their expansion, and the spectral bound: a row a radius."""
    import numpy as np

    from gapo.diagnostics.expansion import RADII, spectral_bound, sweep
    from gapo.model.double import double_copy
    from gapo.pairs.collate import collate

    policy = model_of(run)
    model = double_copy(policy.model)
    batch = collate(held_out(run, policy.tokenizer, THEORY_PAIRS), int(policy.tokenizer.pad_token_id))
    found = sweep(model, batch, RADII)
    bound = spectral_bound(model, batch, RADII, gaps=found.gaps)
    rest = {order: np.sqrt((found.residual(order) ** 2).mean(1)) for order in (0, 1, 2)}
    powers = {f"power_{order}": found.falls_as(order) for order in (0, 1, 2)}
    return [
        {
            "radius": float(f"{radius:.4g}"),
            **{f"rest_{order}": float(values[k]) for order, values in rest.items()},
            **{name: float(getattr(bound, name)[k] / bound.first[k]) for name in ("gap", "floor", "ceiling")},
            "holds": bool(bound.floor[k] <= bound.gap[k] <= bound.ceiling[k]),
            "direction_norm": found.expansion.direction_norm,
            "lambda_max": bound.spectrum.lambda_max,
            "curvature": bound.curvature,
            "pairs": len(batch),
            **powers,
        }
        for k, radius in enumerate(RADII)
    ]
