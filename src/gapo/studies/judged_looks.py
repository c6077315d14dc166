"""What the study of judges sees: judged pairs, probed by a model as it is."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from gapo.pairs.judged import agreed, judged_pairs
from gapo.pairs.pair import PairSet
from gapo.studies.held_out import encoder_of, start_of
from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun

BATCH = 8
COLUMNS = ("margin", "gap", "weight", "gap_self", "gap_others", "grad_norm", "chosen_tokens", "rejected_tokens")


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


def drawn(pairs: PairSet, count: int, seed: int) -> PairSet:
    """So many pairs, half of them disputed, in one order for all seeds: no two seeds have a pair in common."""
    opinions = agreed(pairs)
    order = np.random.default_rng(0).permutation(len(pairs))
    sides = [[int(k) for k in order if opinions[pairs[int(k)].id] is side] for side in (False, True)]
    half = count // 2
    places = [place for side in sides for place in side[seed * half : (seed + 1) * half]]
    return PairSet(tuple(pairs[place] for place in places), name=pairs.name)


def _number(text: str) -> int:
    """A prompt's name: prompts may be long."""
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")
