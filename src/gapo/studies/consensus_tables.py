"""The tables of the study of consensus: methods, estimated rates, what finds wrong labels, and variants."""

from __future__ import annotations

from math import log2

from gapo.studies.rows import Row, Rows, Tables, where
from gapo.studies.seeds import columns_of, minus, paired, summarised

OURS, WITH_DPO = "consensus", "consensus_dpo"
VARIED = (OURS, "consensus_gapo")
OTHERS = ("simpo", "dpo", "robust_dpo", "dr_dpo", "gapo")
USUAL = "as it is"
RANDOM = "at random"
NOISY = (0.2, 0.4)  # where variants are tried
BY = ["flips", "rate", "method"]
DOUBTS = ("estimated", "true_rate", "area", "precision", "clean_weight", "flipped_weight")


def tables(rows: Rows) -> Tables:
    runs = where(rows, what="run", variant=USUAL)
    rates = [_without_spread(row) for row in summarised(where(runs, method=OURS), BY[:2], DOUBTS)]
    rates.sort(key=lambda row: (row["flips"], row["rate"]))
    return {
        "accuracy": sorted(
            summarised(runs, BY, ("accuracy", "likelihood_accuracy", "lc_win_rate")),
            key=lambda row: (row["flips"], row["rate"]),
        ),
        "consensus_minus": minus(runs, OURS, OTHERS, ("accuracy", "lc_win_rate"), BY[:2]),
        "dpo_minus": minus(runs, WITH_DPO, OTHERS, ("accuracy", "lc_win_rate"), BY[:2]),
        "rates": rates,
        "estimates": [*map(_estimated, rates), *map(_true, where(rates, flips=RANDOM))],
        "sizes": [*map(_on_a_line, summarised(where(rows, what="size"), ["rate", "leaders"], ("area",)))],
        "layers": summarised(where(rows, what="layer"), ["rate", "layer"], ("area",)),
        "variants": variants(where(rows, what="run", flips=RANDOM)),
    }


def variants(runs: Rows) -> Rows:
    """Each variant and how far it is from the usual one on the same seeds."""
    ours = [row for row in runs if row["method"] in VARIED and row["rate"] in NOISY]
    found = []
    for row in summarised(ours, ["rate", "variant"], ("accuracy", *DOUBTS)):
        here = where(ours, rate=row["rate"])
        usual = where(here, variant=USUAL)
        gain = paired(where(here, variant=row["variant"]), usual, "accuracy") if row["variant"] != USUAL else None
        found.append({**row, **columns_of("gain", gain)})
    return sorted(found, key=lambda row: row["rate"])


def _without_spread(row: Row) -> Row:
    """The true share is the same for every seed."""
    return {key: value for key, value in row.items() if key not in ("true_rate_low", "true_rate_high")}


def _estimated(row: Row) -> Row:
    shares = {f"share{end}": row[f"estimated{end}"] for end in ("", "_low", "_high")}
    return {"rate": row["rate"], "line": f"estimated, {row['flips']}", **shares}


def _true(row: Row) -> Row:
    return {"rate": row["rate"], "line": "true", "share": row["true_rate"]}


def _on_a_line(row: Row) -> Row:
    """Numbers of pairs as powers of two: they double from one to the next."""
    labels = f"{100 * row['rate']:.0f} % flipped"
    return {**row, "labels": labels, "log_leaders": round(log2(row["leaders"]), 3)}
