"""Score every pair of a preference set at a model as it is: `gapo audit`, and `gapo.audit_pairs`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gapo.anchor.gap import parameters_in_scope
from gapo.diagnostics.audit_summary import summary
from gapo.diagnostics.auditing import AuditSettings, BlockScorer
from gapo.diagnostics.compositions import spread_seen
from gapo.errors import InputError
from gapo.evaluate.tables import short_name
from gapo.model.double import kept_double
from gapo.model.generate import padding_id
from gapo.model.policy import fitting_length
from gapo.model.ranks import ALONE, Ranks
from gapo.pairs.encode import EncodedPair, Encoder
from gapo.pairs.formats import describe_bad_rows, load_pairs
from gapo.pairs.judges_wheel import AGREE, DISAGREE
from gapo.pairs.pair import PairSet
from gapo.pairs.sources import PairSource
from gapo.pairs.token_cache import encode_set
from gapo.runs.alive import at_work
from gapo.runs.audit_folder import AuditFolder, Plan, read_audit
from gapo.runs.audit_model import model_and_name, print_of_model
from gapo.runs.environment import environment
from gapo.training.admission import refuse_foreign_ids
from gapo.training.dataset import EncodedPairs

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Listener:
    """Who hears of an audit as it goes: sentences, the estimate in seconds, and pairs done of pairs in all."""

    say: Callable[[str], None] = lambda _: None
    expect: Callable[[int, float], None] = lambda _, __: None
    done: Told = lambda _, __: None


@dataclass(frozen=True)
class Audit:
    """A row a pair in `table`; `about` is what audit.json says. `folder` is None where nothing was written."""

    table: pa.Table
    about: dict[str, Any]
    folder: Path | None = None


@dataclass(frozen=True)
class Asked:
    """What the user named: to be written down, and to find a finished audit by."""

    data: str
    model: str
    adapter: str | None = None
    template: str = "auto"
    max_length: int = 2048
    limit: int | None = None
    split: str | None = None
    dtype: str = "float32"
    settings: AuditSettings = field(default_factory=AuditSettings)


def folder_of(asked: Asked) -> Path:
    """Where an audit goes unless told otherwise."""
    first = f"-first-{asked.limit}" if asked.limit else ""
    adapted = f"-{short_name(asked.adapter)}" if asked.adapter else ""
    data = short_name(asked.data)
    for ending in (".gz", ".jsonl", ".json", ".csv", ".parquet"):
        data = data.removesuffix(ending)
    return Path("runs") / "audits" / f"{data}-{short_name(asked.model)}{adapted}{first}"


def audit_pairs(
    pairs: PairSource,
    model: str | nn.Module,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    out: str | Path | None = None,
    template: str = "auto",
    max_length: int = 2048,
    limit: int | None = None,
    settings: AuditSettings | None = None,
    **knobs: Any,
) -> Audit:
    """Score pairs with a model: a name that `load_policy` knows, a run or adapter folder, or a model with a tokenizer.

    `knobs` are the fields of `AuditSettings` (compositions, batch_pairs, radius, beta, gamma, scope, seed, exact, ...).
    With `out` the audit can be killed and goes on; the folder then has `audit.parquet` and `audit.json`.
    """
    settings = replace(settings or AuditSettings(), **knobs)
    found = load_pairs(pairs, limit=limit)
    loaded, tokenizer, name = model_and_name(model, tokenizer, "audit_pairs")
    asked = Asked(place_of(pairs, found), name, None, template, max_length, limit, settings=settings)
    folder = None if out is None else AuditFolder(Path(out))
    return audited(found, loaded, tokenizer, asked, folder)


def place_of(pairs: PairSource, found: PairSet) -> str:
    """Where the pairs can be read again."""
    return str(pairs) if isinstance(pairs, str | PathLike) else found.name


def finished(asked: Asked, folder: Path, pairs: PairSet) -> Audit | None:
    """The audit that stands in the folder, if it was asked for in the same words; the model is not loaded for it."""
    about = AuditFolder(folder).result
    if about is None:
        return None
    words = {name: value for name, value in asdict(asked).items() if name != "settings"}
    settings = {name: value for name, value in asdict(asked.settings).items() if value is not None}
    settings["batch_pairs"] = min(settings["batch_pairs"], int(about["counts"]["scored"]))
    before = about["plan"]["settings"]
    same = all(about.get(name) == value for name, value in words.items())
    if not same or any(before.get(name) != value for name, value in settings.items()):
        return None
    table, about = read_audit(folder)
    known = set(pairs.ids)
    return Audit(table, about, folder) if all(name in known for name in table["pair_id"].to_pylist()) else None


def audited(
    pairs: PairSet,
    model: nn.Module,
    tokenizer: Any,
    asked: Asked,
    folder: AuditFolder | None,
    *,
    listener: Listener | None = None,
    ranks: Ranks = ALONE,
    command: Sequence[str] = (),
) -> Audit:
    """Score what is not scored yet, on all ranks together; what the first rank gives is whole."""
    begun = perf_counter()
    listener = listener or Listener()
    encoded = encode_set(pairs, Encoder(tokenizer, fitting_length(model, asked.max_length), None, asked.template))
    left_out = describe_bad_rows(chain(pairs.bad_rows, encoded.bad))
    if not len(encoded.encoded):
        raise InputError(
            f"{pairs.name}: no pair is left to score ({'; '.join(left_out)}); mend the pairs, or give others"
        )
    refuse_foreign_ids(model, EncodedPairs(encoded.encoded, encoded.pairs))
    for line in left_out:
        listener.say(line)
    parameters_in_scope(model, asked.settings.scope)  # a scope of nothing is said before anything is written
    before = folder.chosen_before(asked.settings) if folder is not None else asked.settings
    settings = ranks.first_decides(lambda: before.settled(model, len(encoded.encoded), ranks.on_this_machine))
    plan = Plan(print_of_pairs(encoded.encoded), print_of_model(model), settings)
    if folder is not None:
        ranks.first_decides(lambda: folder.refuse(plan))
    with at_work(folder.path, ranks) if folder is not None else nullcontext():
        if folder is not None and ranks.first_decides(lambda: folder.open(plan)):
            listener.say(f"{folder.path} is finished; this is its result")
            return Audit(*read_audit(folder.path), folder.path)
        with kept_double() if asked.dtype == "float64" else nullcontext():
            scored = _scored(model, encoded.encoded, padding_id(tokenizer, model), plan, folder, listener, ranks)
        if not ranks.first:
            return Audit(pa.table({}), {})
        table = _in_order(scored.table, encoded.pairs)
        seconds = {"estimate": scored.estimate, "scoring": scored.seconds, "all": perf_counter() - begun}
        about = _about(asked, plan, table, left_out, len(pairs) + len(pairs.bad_rows), seconds, command)
        if folder is not None:
            folder.finish(table, about)
        return Audit(table, about, None if folder is None else folder.path)


@dataclass(frozen=True)
class _Scored:
    table: pa.Table
    estimate: float | None
    seconds: float


def _scored(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    plan: Plan,
    folder: AuditFolder | None,
    listener: Listener,
    ranks: Ranks,
) -> _Scored:
    scorer = BlockScorer(model, pairs, pad_id, plan.settings)
    blocks = len(scorer.blocks)
    missing = ranks.first_decides(lambda: folder.missing(blocks) if folder is not None else list(range(blocks)))
    sizes = [new for _, new in scorer.blocks]
    total, left = sum(sizes), sum(sizes[k] for k in missing)
    if left < total:
        listener.say(f"{total - left:,} of {total:,} pairs are scored already; going on with the others")
    estimate = scorer.expected_seconds(missing) / ranks.total if missing else None
    if estimate is not None:
        listener.expect(left, estimate)
    start = perf_counter()
    held: dict[int, pa.Table] = {}
    for number in missing[ranks.here :: ranks.total]:
        table = scorer.table(number)
        if folder is None:
            held[number] = table
        else:
            folder.write_part(number, table)
        done = held if folder is None else set(missing) - set(folder.missing(blocks))  # also by other ranks
        listener.done(total - left + sum(sizes[k] for k in done), total)
    ranks.wait()  # every rank's parts are there
    if folder is not None:
        joined = folder.joined(blocks) if ranks.first else pa.table({})
    else:
        every = {k: table for part in ranks.gather_objects(held) for k, table in part.items()}
        joined = pa.concat_tables([every[k] for k in range(blocks)])
    return _Scored(joined, estimate, perf_counter() - start)


def _in_order(table: pa.Table, pairs: PairSet) -> pa.Table:
    """Rows as the pairs stand, with what the data say of each."""
    order = np.argsort(np.asarray(table["row"].to_numpy()), kind="stable")
    table = table.take(pa.array(order)).drop_columns(["row"]).combine_chunks()
    subsets = [pair.subset for pair in pairs]
    agree = [None if subset not in (AGREE, DISAGREE) else subset == AGREE for subset in subsets]
    table = table.append_column("agree", pa.array(agree, pa.bool_()))
    return table.append_column("subset", pa.array(subsets, pa.string()))


def _about(
    asked: Asked,
    plan: Plan,
    table: pa.Table,
    left_out: Sequence[str],
    rows: int,
    seconds: dict[str, float | None],
    command: Sequence[str],
) -> dict[str, Any]:
    settings = plan.settings
    return {
        "data": asked.data,
        "split": asked.split,
        "limit": asked.limit,
        "model": asked.model,
        "adapter": asked.adapter,
        "template": asked.template,
        "max_length": asked.max_length,
        "dtype": asked.dtype,
        "plan": plan.written(),
        "spread_seen": spread_seen(settings.batch_pairs, settings.block_pairs or table.num_rows),
        "counts": {
            "rows": rows,
            "scored": table.num_rows,
            "flipped_known": table.num_rows - table["flipped"].null_count,
            "agree_known": table.num_rows - table["agree"].null_count,
        },
        "left_out": list(left_out),
        "summary": summary(table, settings.exact),
        "seconds": seconds,
        "environment": environment(list(command), settings.seed),
    }


def print_of_pairs(pairs: Sequence[EncodedPair]) -> str:
    """A short name for these pairs as the model reads them."""
    digest = hashlib.blake2b(digest_size=16)
    for pair in pairs:
        digest.update(f"{pair.id} {pair.flipped} {pair.prompt} {pair.chosen} {pair.rejected}\n".encode())
    return digest.hexdigest()
