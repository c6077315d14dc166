"""What the study of judges sees: judged pairs, probed by a model as it is, and what that says of disputed ones."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from gapo.errors import InputError
from gapo.pairs.judged import agreed, judged_pairs
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.studies.held_out import encoder_of, start_of
from gapo.studies.rows import Rows, Tables
from gapo.studies.store import StoredRun, takes

KINDS = {True: "judges disagree", False: "judges agree"}
TIERS = ("bottom 20 %", "middle 60 %", "top 20 %")
BATCH = 8
LONGEST = 600  # characters of prompt and both answers: short pairs, so that none is cut and a probe takes seconds
COLUMNS = ("margin", "gap", "weight", "gap_self", "gap_others", "grad_norm", "chosen_tokens", "rejected_tokens")


@takes(150)
def probes(run: StoredRun) -> Rows:
    """A row a pair: whether the judges disagree, and what a step of GAPO would record of it."""
    from gapo.diagnostics.probing import ProbeSettings, probe_pairs
    from gapo.pairs.encode import encode_pairs

    recipe = run.recipe
    pairs = drawn(judged_pairs(recipe["data"]["train"]), recipe["data"]["limit"], recipe["train"]["seed"])
    policy = start_of(run)
    encoded, _ = encode_pairs(pairs, encoder_of(run, policy.tokenizer))
    beta, gamma = (float(recipe["objective"][name]) for name in ("beta", "gamma"))
    settings = ProbeSettings(min(BATCH, len(encoded)), recipe["anchor"]["radius"], beta, gamma)
    table = probe_pairs(policy.model.eval(), encoded, int(policy.tokenizer.pad_token_id), settings)
    opinions, prompts = agreed(pairs), {pair.id: pair.prompt_text for pair in pairs}
    return [
        {
            "pair_id": row["pair_id"],
            "prompt": _number(prompts[row["pair_id"]]),
            "disputed": not opinions[row["pair_id"]],
            **{name: row[name] for name in COLUMNS},
        }
        for row in table.to_pylist()
    ]


def disputes(rows: Rows) -> Tables:
    """Weights and signals of disputed pairs beside the others', all seeds' pairs together; intervals over prompts."""
    import pyarrow as pa

    from gapo.diagnostics.intervals import flat
    from gapo.diagnostics.signals import finders
    from gapo.diagnostics.tiers import contrast, tier_difference, tiers

    seen = [row for row in rows if "disputed" in row]
    table = pa.Table.from_pylist(seen)
    weight, marked, prompts = (np.array([row[name] for row in seen]) for name in ("weight", "disputed", "prompt"))
    bands = zip(TIERS, tiers(weight, marked, clusters=prompts), strict=True)
    summary = {
        **flat(contrast(weight, marked, clusters=prompts)),
        **flat(tier_difference(weight, marked, clusters=prompts), "bottom_minus_top"),
        "prompts": len(np.unique(prompts)),
    }
    return {
        "weights": [summary],
        "tiers": [{"tier": name, "pairs": band.pairs, **flat(band.rate, "rate")} for name, band in bands],
        "finders": [flat(one) for one in finders(table, marked.astype(float), clusters=prompts)],
        "pairs": [{"kind": KINDS[bool(row["disputed"])], "weight": row["weight"], "gap": row["gap"]} for row in seen],
    }


def drawn(pairs: PairSet, count: int, seed: int) -> PairSet:
    """So many short pairs, half of them disputed, in one order for all seeds: no two seeds have a pair in common."""
    opinions = agreed(pairs)
    order = [int(k) for k in np.random.default_rng(0).permutation(len(pairs))]
    short = [k for k in order if _characters(pairs[k]) <= LONGEST]
    sides = [[k for k in short if opinions[pairs[k].id] is side] for side in (False, True)]
    half = count // 2
    if (seed + 1) * half > min(map(len, sides)):
        raise InputError(f"{count} pairs of seed {seed} are more than there are; ask for fewer seeds")
    places = [place for side in sides for place in side[seed * half : (seed + 1) * half]]
    return PairSet(tuple(pairs[place] for place in places), name=pairs.name)


def _characters(pair: PreferencePair) -> int:
    return len(pair.prompt_text) + len(pair.chosen) + len(pair.rejected)


def _number(text: str) -> int:
    """A prompt's name: prompts may be long."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")
