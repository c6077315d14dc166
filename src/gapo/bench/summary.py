"""What the measurements say: the numbers of `summary.json`, made from the raw lines alone."""

from __future__ import annotations

import os
import platform
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gapo.bench.arithmetic import Spread, ratio, spread
from gapo.bench.growth import Curve, curves
from gapo.bench.setting import Setting, Workload
from gapo.bench.targets import outcomes
from gapo.bench.variants import TRL_SIMPO
from gapo.bench.work import Shape, useful_flops
from gapo.runs.lengths import lengths_of


def setting_facts(setting: Setting, work: Workload) -> dict[str, Any]:
    """What was measured on; lengths, never text."""
    lengths = lengths_of(work.pairs.encoded)
    shape = Shape.of(work.model)
    return {
        "model": Path(setting.model).name,
        "data": work.name,
        "pairs": setting.pairs,
        "micro_batch": setting.micro_batch,
        "accumulation": setting.accumulation,
        "precision": setting.precision,
        "parameters": work.model.num_parameters(),
        "tokens": sum(pair.tokens for pair in lengths),
        "row_tokens": sum(2 * pair.prompt + pair.responses for pair in lengths),
        "response_tokens": sum(pair.responses for pair in lengths),
        "longest_row": max(pair.prompt + max(pair.chosen, pair.rejected) for pair in lengths),
        "useful_gflop": useful_flops(shape, lengths) / 1e9,
    }


def environment_facts() -> dict[str, Any]:
    """The machine and the libraries; no host, no user, no path."""
    import torch

    found: dict[str, Any] = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in ("gapo", "torch", "transformers", "trl"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found | {"threads": torch.get_num_threads(), "cores": os.cpu_count(), "cpu": cpu_name()}


def cpu_name() -> str:
    """The processor's name, where the system tells."""
    file = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", file.read_text()) if file.is_file() else None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def summarised(
    facts: Mapping[str, Any],
    labels: Mapping[str, str],
    told: Mapping[str, Mapping[str, Any]],
    raw: Sequence[Mapping[str, Any]],
    memory: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Variants and targets. `told` is what setting a variant up told; raw and memory are the lines of their files."""
    seconds: dict[str, dict[int, float]] = defaultdict(dict)
    rates: dict[str, list[float]] = defaultdict(list)
    for line in raw:
        seconds[line["variant"]][line["repetition"]] = line["seconds"]
        rates[line["variant"]].append(line["peak_gflops"])
    peaks = {line["variant"]: line["peak_bytes"] for line in memory}
    shares = {name: _share(facts, list(seconds[name].values()), rates[name]) for name in seconds}
    variants = [
        _row(name, label, facts, seconds, rates, shares, peaks) | dict(told.get(name, {}))
        for name, label in labels.items()
        if name in seconds or name in peaks
    ]
    targets = [
        asdict(found.target) | {"found": _plain(found.found), "verdict": found.verdict}
        for found in outcomes(seconds, peaks, shares)
    ]
    repetitions = max((len(found) for found in seconds.values()), default=0)
    return {"repetitions": repetitions, "variants": variants, "targets": targets}


def _row(
    name: str,
    label: str,
    facts: Mapping[str, Any],
    seconds: Mapping[str, Mapping[int, float]],
    rates: Mapping[str, Sequence[float]],
    shares: Mapping[str, Spread],
    peaks: Mapping[str, int],
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "label": label}
    if name in seconds:
        step = spread(list(seconds[name].values()))
        row |= {
            "seconds_per_step": _plain(step),
            "seconds_per_pair": _plain(step.over(facts["pairs"])),
            "tokens_per_second": _plain(step.under(facts["tokens"])),
            "share_of_peak": _plain(shares[name]),
            "peak_gflops": _plain(spread(rates[name])),
            "against_trl_simpo": _plain(ratio(seconds[name], seconds.get(TRL_SIMPO, {}))),
            "against_our_simpo": _plain(ratio(seconds[name], seconds.get("simpo", {}))),
        }
    return row | {"peak_bytes": peaks.get(name)}


def _share(facts: Mapping[str, Any], seconds: Sequence[float], rates: Sequence[float]) -> Spread:
    """Useful GFLOP over seconds, over the median of the peaks measured right before each."""
    return spread(seconds).under(facts["useful_gflop"]).over(spread(rates).value)


def growth_facts(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The curves with their exponents; JSON has no NaN."""
    return [_curve(curve) for curve in curves([dict(line) for line in measured])]


def _curve(curve: Curve) -> dict[str, Any]:
    known = curve.growth
    error = known.error if known is not None and known.error == known.error else None
    return {
        "axis": curve.axis,
        "variant": curve.variant,
        "parameters": curve.parameters,
        "x": list(curve.x),
        "seconds_per_pair": list(curve.y),
        "exponent": known.exponent if known else None,
        "standard_error": error,
    }


def _plain(found: Spread | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {"value": float(f"{found.value:.6g}"), "low": float(f"{found.low:.6g}"), "high": float(f"{found.high:.6g}")}
