"""gapo flip: a copy of a preference set with some labels wrong on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapo.cli.terminal import AsJson, Quiet, Voice


def flip(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file, an embedded set or a Hugging Face id.")],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where to write; the suffix says how (.jsonl, .parquet, ...).")
    ],
    *,
    rate: Annotated[float, typer.Option(help="The share of pairs to flip, from 0 to 1.")] = 0.2,
    kind: Annotated[
        str, typer.Option(help="random: any pair; length: only where the chosen answer is longer.")
    ] = "random",
    seed: Annotated[int, typer.Option(help="The same seed flips the same pairs.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT if it exists.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Flip the labels of some pairs, and mark every pair with `flipped`.

    Example: gapo flip train.jsonl noisy.jsonl --rate 0.2 --kind random --seed 0
    """
    import warnings

    from gapo.errors import InputError
    from gapo.pairs.files import kind_of, save_pairs
    from gapo.pairs.formats import describe_bad_rows, load_pairs
    from gapo.pairs.noise import flip as flip_pairs

    kind_of(out)  # before any work: an unknown suffix
    if out.exists() and not force:
        raise InputError(f"{out} exists; add --force to overwrite it, or choose another name")
    pairs = load_pairs(source)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        noisy, flipped = flip_pairs(pairs, rate, kind, seed)
    save_pairs(noisy, out)
    voice = Voice(quiet=quiet, as_json=as_json)
    voice.tell(f"flipped {sum(flipped):,} of {len(noisy):,} pairs ({kind}, rate {rate:g}, seed {seed}) -> {out}")
    told = [*(str(note.message) for note in notes), *describe_bad_rows(pairs.bad_rows)]
    voice.tell(*told)
    done = {"path": str(out), "pairs": len(noisy), "flipped": sum(flipped)}
    voice.give({**done, "kind": kind, "rate": rate, "seed": seed, "notes": told})
