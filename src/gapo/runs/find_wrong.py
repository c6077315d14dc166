"""Which labels of a preference set are likely wrong: `gapo audit --find-wrong`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapo.consensus.judging import judged, sketches_of
from gapo.consensus.mixture import fit_with_interval
from gapo.consensus.peers import FEWEST, WHOLE, groups_of, kinds_of
from gapo.consensus.scope import STATES, judging_parameters
from gapo.diagnostics.auditing import AuditSettings
from gapo.diagnostics.label_check import label_check
from gapo.diagnostics.tables import column
from gapo.errors import InputError
from gapo.model.generate import padding_id
from gapo.model.layout import choose_layout, telling_pairs
from gapo.model.policy import fitting_length
from gapo.model.ranks import ALONE, Ranks
from gapo.model.reference import Progress, no_progress
from gapo.pairs.encode import Encoder
from gapo.pairs.formats import load_pairs
from gapo.pairs.originals import row_number, save_originals
from gapo.pairs.pair import PairSet
from gapo.pairs.sources import PairSource
from gapo.pairs.token_cache import encode_set
from gapo.runs.audit_folder import write_json
from gapo.runs.audit_model import model_and_name
from gapo.storage import whole_file
from gapo.training.dataset import prompt_numbers
from gapo.training.doubts import JUDGED

if TYPE_CHECKING:
    from torch import nn

    from gapo.runs.audit import Asked

ABOUT, RELABEL = "wrong.json", "relabel.jsonl"
DOUBT = 0.5  # above it the other label is the likelier one


@dataclass(frozen=True)
class WrongLabels:
    """A row a pair, most suspicious first, in `table`; `about` is what wrong.json says."""

    table: pa.Table
    about: dict[str, Any]

    @property
    def suspected(self) -> pa.Table:
        """Pairs whose label is likelier wrong than right."""
        return self.table.filter(pa.array(column(self.table, "wrong") > DOUBT))


def find_wrong_labels(
    pairs: PairSource,
    model: str | nn.Module,
    tokenizer: Any = None,
    *,
    out: str | Path | None = None,
    scope: str = STATES,
    within: str = WHOLE,
    template: str = "auto",
    max_length: int = 2048,
    limit: int | None = None,
    seed: int = 0,
) -> WrongLabels:
    """Rank the labels of these pairs, most likely wrong first, and check on known flips whether that can be done here.

    `model` is a name that `load_policy` knows, a run or adapter folder, or a model with its tokenizer. `scope` says
    what judges: states (a forward alone), or gradients: full, top, lm_head, or a regex; `within` who does: all pairs,
    or (subset) those of a pair's own subset. `seed` is that of the flips. With `out` the folder gets `wrong.parquet`,
    `wrong.json` and `relabel.jsonl`, and serves as `consensus_judge` of a training run.
    """
    from gapo.runs.audit import Asked, place_of

    found = load_pairs(pairs, limit=limit)
    loaded, tokenizer, name = model_and_name(model, tokenizer, "find_wrong_labels")
    settings = AuditSettings(seed=seed)
    asked = Asked(place_of(pairs, found), name, None, template, max_length, limit, settings=settings)
    refuse_judging(found, loaded, scope, within, keys=("scope", "within"))
    labels = find_wrong(found, loaded, tokenizer, asked, scope=scope, within=within)
    if out is not None:
        write_wrong(Path(out), labels, found)
    return labels


def refuse_judging(
    pairs: PairSet, model: nn.Module, scope: str, within: str, keys: tuple[str, str] = ("--judge-scope", "--within")
) -> None:
    """What would make the search pointless, said before anything is computed. `keys` are the user's names of both."""
    if scope != STATES:
        judging_parameters(model, scope, keys[0])
    groups_of(pairs, within, keys[1])
    _refuse_few(pairs, len(pairs))


def _refuse_few(pairs: PairSet, count: int) -> None:
    if count < FEWEST:
        raise InputError(
            f"{pairs.name}: {count} pairs are too few to have a direction; finding wrong labels takes {FEWEST} or more"
        )


def find_wrong(
    pairs: PairSet,
    model: nn.Module,
    tokenizer: Any,
    asked: Asked,
    *,
    scope: str = STATES,
    within: str = WHOLE,
    progress: Progress = no_progress,
    ranks: Ranks = ALONE,
) -> WrongLabels:
    """Judge every label by the direction of the others, and check on flips made on purpose that this can be done."""
    encoded = encode_set(pairs, Encoder(tokenizer, fitting_length(model, asked.max_length), None, asked.template))
    rows = encoded.encoded
    _refuse_few(pairs, len(rows))
    pad_id = padding_id(tokenizer, model)
    layout = ranks.first_decides(lambda: choose_layout(model, telling_pairs(model, rows), pad_id, "auto"))
    sketches = sketches_of(model, rows, pad_id, scope=scope, progress=progress, shared=layout.shared, ranks=ranks)
    prompts = prompt_numbers(rows)
    groups = groups_of(encoded.pairs, within, "--within")
    found = judged(sketches, prompts, groups=groups)
    bounds = fit_with_interval(found.alignment.numpy())
    mixture = replace(found.mixture, low=min(bounds.low, found.mixture.rate), high=max(bounds.high, found.mixture.rate))
    check = label_check(sketches, prompts, seed=asked.settings.seed, groups=groups)
    kinds = kinds_of(encoded.pairs) if groups is None else None
    apart = label_check(sketches, prompts, seed=asked.settings.seed, groups=kinds) if kinds is not None else None
    table = _table(encoded.pairs, found.alignment.numpy(), found.wrong.numpy())
    about = {
        "data": asked.data,
        "model": asked.model,
        "scope": scope,
        "within": within,
        "pairs": len(rows),
        "suspected": int((found.wrong > DOUBT).sum()),
        "mixture": asdict(mixture),
        "check": {**asdict(check), "verdict": check.verdict, "words": check.words},
        "apart": asdict(apart) if apart is not None else None,  # the same check, had subsets judged themselves
    }
    return WrongLabels(table, about)


def _table(pairs: PairSet, alignment: np.ndarray, wrong: np.ndarray) -> pa.Table:
    order = np.lexsort((alignment, -wrong))
    listed = list(pairs)
    return pa.table(
        {
            "pair_id": [listed[i].id for i in order],
            "source": [listed[i].source for i in order],
            "wrong": pa.array(wrong[order]),
            "consensus": pa.array(alignment[order]),
            "flipped": pa.array([listed[i].flipped for i in order], pa.bool_()),
        }
    )


def write_wrong(folder: Path, found: WrongLabels, pairs: PairSet) -> None:
    """The table, what is said of it, and the list to relabel: most suspicious first, with the words of each pair."""
    with whole_file(folder / JUDGED) as part:
        pq.write_table(found.table, part, compression="zstd")
    write_json(folder / ABOUT, found.about)
    known = {pair.id: pair for pair in pairs}
    with whole_file(folder / RELABEL) as part, part.open("w", encoding="utf-8") as file:
        for row in found.suspected.to_pylist():
            pair = known[row["pair_id"]]
            said = {"prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected}
            file.write(json.dumps({**row, **said}, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return [dict(turn) for turn in value]


def read_wrong(folder: Path) -> WrongLabels | None:
    """What stands in an audit's folder, if its labels were judged."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return WrongLabels(pq.read_table(folder / JUDGED), about)
    except (OSError, ValueError):
        return None


def save_cleaned(asked: Asked, pairs: PairSet, found: WrongLabels, out: Path) -> dict[str, Any]:
    """Write the rows of the source without those that are likelier wrong than right; what was done, in plain values."""
    doubted: Sequence[str] = found.suspected["pair_id"].to_pylist()
    left = set(doubted)
    kept = [row_number(pair.source) for pair in pairs if pair.id not in left]
    save_originals(asked.data, kept, out, asked.split)
    return {"file": str(out), "kept": len(kept), "of": len(pairs)}
