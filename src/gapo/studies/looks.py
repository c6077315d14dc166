"""What studies of pairs see in a run: each function is an observer, and loads what it needs when it is called."""

from __future__ import annotations

from gapo.studies.outcome import outcome
from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun, takes

SIZES = (8, 16, 32, 64, 128)
PROBE_PAIRS, PROBE_BATCH = 1984, 64  # as the paper: 31 batches
SHOWN = 8  # every eighth pair is drawn
HELD_OUT = 200
SIGNALS = ("weight", "gap_self", "gap_others", "margin", "grad_norm", "length_term")


@takes(110)
def weights_by_label(run: StoredRun) -> Rows:
    """Mean weights of clean and flipped pairs, and the flipped share by tier, at each kept model."""
    import pyarrow.compute as pc

    from gapo.diagnostics.probing import probe_models
    from gapo.diagnostics.tables import column
    from gapo.diagnostics.tiers import as_marks, contrast, tiers
    from gapo.studies.probes import VALUES_ONLY, models_by_epoch, probed, settings_of

    data, models = probed(run), models_by_epoch(run)
    table = probe_models(models, data.pairs, data.pad_id, settings_of(run))
    rows = []
    for epoch in models:
        part = table.filter(pc.equal(table["moment"], epoch))
        weight, flipped = column(part, "weight"), as_marks(column(part, "flipped"))
        means = contrast(weight, flipped, draws=VALUES_ONLY)
        bottom, middle, top = (tier.rate.value for tier in tiers(weight, flipped, draws=VALUES_ONLY))
        rows.append(
            {
                "epoch": epoch,
                "pairs": part.num_rows,
                "clean": means.others.value,
                "flipped": means.marked.value,
                "relative": means.relative.value,
                "bottom": bottom,
                "middle": middle,
                "top": top,
                "bottom_minus_top": bottom - top,
                "spread": float(weight.std() / weight.mean()),
            }
        )
    return rows


@takes(30)
def batch_against_own(run: StoredRun) -> Rows:
    """Ranks by the batch probe against those by each pair's own direction, measured and for orthogonal gradients."""
    from gapo.diagnostics.intervals import flat
    from gapo.diagnostics.probing import probe_pairs
    from gapo.diagnostics.shares import orthogonal, probe_summary
    from gapo.diagnostics.tables import column
    from gapo.studies.probes import VALUES_ONLY, probed, settings_of, trained_model

    data = probed(run, PROBE_PAIRS)
    model = trained_model(run) if run.evals else data.start
    size = min(PROBE_BATCH, len(data.pairs))
    table = probe_pairs(model, data.pairs, data.pad_id, settings_of(run, size))
    found = [
        {"gradients": name, **flat(probe_summary(part, draws=VALUES_ONLY))}
        for name, part in (("measured", table), ("orthogonal", orthogonal(table)))
    ]
    rows: Rows = [{key: row[key] for key in row if not key.endswith(("_low", "_high"))} for row in found]
    if run.recipe["train"]["seed"] == 0:
        shown = table.take(list(range(0, table.num_rows, SHOWN)))
        columns = {name: column(shown, name).tolist() for name in ("alignment", "own_gap")}
        columns["batch_gap"] = (column(shown, "gap_self") + column(shown, "gap_others")).tolist()
        rows += [
            {"gradients": "pair", **dict(zip(columns, each, strict=True))}
            for each in zip(*columns.values(), strict=True)
        ]
    return rows


@takes(10)
def what_sets_weights(run: StoredRun) -> Rows:
    """Of the start model the self share by size; of a run its outcome, and of GAPO's also what finds flipped pairs."""
    if not run.evals:
        return _by_size(run)
    found = [{"what": "method", **row} for row in outcome(run)]
    return found + (_signals(run) if run.recipe["objective"]["name"] == "gapo" else [])


def _by_size(run: StoredRun) -> Rows:
    from gapo.diagnostics.explained import explained
    from gapo.diagnostics.probing import probe_sizes
    from gapo.diagnostics.shares import self_shares
    from gapo.diagnostics.signals import signal
    from gapo.studies.probes import VALUES_ONLY, probed, settings_of

    data = probed(run)
    sizes = [size for size in SIZES if size <= len(data.pairs)]
    rows = []
    for size, table in probe_sizes(data.start, data.pairs, data.pad_id, sizes, settings_of(run)).items():
        share = self_shares(table, draws=VALUES_ONLY)
        signals = {name: signal(table, name) for name in ("gap_self", "gap_others", "length_term")}
        parts = explained(signal(table, "weight"), signals, draws=VALUES_ONLY)
        rows.append(
            {
                "what": "size",
                "batch_pairs": size,
                "pooled": share.pooled.value,
                "median": share.median.value,
                "variance": share.variance.value,
                "alignment": share.alignment.value,
                "orthogonal_alignment": share.orthogonal_alignment,
                **{name: value.value for name, value in parts.alone.items()},
            }
        )
    return rows


def _signals(run: StoredRun) -> Rows:
    from gapo.diagnostics.signals import finders_over_training

    return [
        {"what": "signal", "quarter": quarter, "signal": found.signal, "area": found.area.value}
        for quarter, (_, areas) in enumerate(finders_over_training(run.pairs, 4, SIGNALS), 1)
        for found in areas
    ]


@takes(10)
def scored_or_trained(run: StoredRun) -> Rows:
    """Score every pair by its gap at the start, for the runs after; or see what a run on a selection came to."""
    from gapo.diagnostics.drift import drift_between
    from gapo.diagnostics.probing import probe_pairs
    from gapo.diagnostics.tables import column, write_probe
    from gapo.studies.probes import probed, settings_of, trained_model

    if not run.evals:
        data = probed(run)
        table = probe_pairs(data.start, data.pairs, data.pad_id, settings_of(run))
        write_probe(table, run.folder)
        gap = column(table, "gap")
        return [{"what": "scores", "gap": float(gap.mean()), "gap_spread": float(gap.std())}]
    data = probed(run)
    kl = drift_between(data.start, trained_model(run), data.held_out[:HELD_OUT], data.pad_id)
    norms = [step["grad_norm"] for step in run.steps]
    fifths = [norms[len(norms) * k // 5 : len(norms) * (k + 1) // 5] or norms[-1:] for k in range(5)]
    return [
        {"what": "outcome", **outcome(run)[0], "kl": kl, "grad_norm": sum(norms) / len(norms)},
        *({"what": "norms", "part": (k + 1) / 5, "grad_norm": sum(n) / len(n)} for k, n in enumerate(fifths)),
    ]
