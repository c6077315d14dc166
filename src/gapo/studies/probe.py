"""The paper's check of the shared anchor: does it rank pairs as each pair's own direction would?"""

from __future__ import annotations

from gapo.studies import paper
from gapo.studies.exhibits import PERCENT, PLAIN, WORDS, Cloud, Column, Histogram, Pivot, Sheet
from gapo.studies.grid import Cell
from gapo.studies.looks import batch_against_own
from gapo.studies.rows import Rows, Tables, first, number, where
from gapo.studies.scale import Scale
from gapo.studies.seeds import columns_of, of_rows, summarised
from gapo.studies.sentences import kept_as, percent, plain
from gapo.studies.study import Claim, Study

GAPS = ("alignment", "own_gap", "batch_gap")
START, TRAINED = "start model", "after an epoch"
MEASURED, ORTHOGONAL = "measured", "orthogonal"
STATISTICS = {
    "positive": "share with alignment above 0",
    "alignment": "median alignment",
    "spearman": "Spearman, batch against own",
    "top_overlap": "overlap of the top 20 %",
    "norm_spread": "log-std of the gradient norm",
    "alignment_spread": "log-std of the alignment",
}
REASON = "in the lab gradient norms differ less than alignments do, in the paper more, and ranks follow what differs"


def grid(scale: Scale) -> list[Cell]:
    """The start model, and the model of the clean GAPO run that other studies train too."""
    return [Cell("gapo", {}, {"model": START}, trained=False), Cell("gapo", {}, {"model": TRAINED})]


def tables(rows: Rows) -> Tables:
    summary = [row for row in rows if row.get("gradients") in (MEASURED, ORTHOGONAL)]
    cases = [(START, MEASURED), (TRAINED, MEASURED), (START, ORTHOGONAL)]
    statistics = [
        {
            "statistic": words,
            "case": model if gradients == MEASURED else "orthogonal gradients",
            **columns_of("value", of_rows(where(summary, model=model, gradients=gradients), key)),
            "paper": paper.PROBE[key] if (model, gradients) == cases[0] else None,
        }
        for key, words in STATISTICS.items()
        for model, gradients in cases
    ]
    return {
        "statistics": statistics,
        "summary": summarised(summary, ["model", "gradients"], list(STATISTICS)),
        "pairs": [{key: row.get(key) for key in ("model", *GAPS)} for row in where(rows, gradients="pair")],
    }


def findings(found: Tables) -> list[str]:
    start, trained = (first(found["summary"], model=name, gradients=MEASURED) or {} for name in (START, TRAINED))
    alone = first(found["summary"], model=START, gradients=ORTHOGONAL) or {}
    keys = ("alignment", "spearman")
    before, after, chance = ([plain(number(row.get(key))) for key in keys] for row in (start, trained, alone))
    return [
        f"At the start {percent(number(start.get('positive')))} of the pairs have an alignment above 0; the median is "
        f"{before[0]}, and {chance[0]} for orthogonal gradients.",
        f"The batch probe ranks pairs like their own directions do with a Spearman correlation of {before[1]} "
        f"(orthogonal gradients: {chance[1]}).",
        f"After an epoch of GAPO the correlation is {after[1]} and the median alignment {after[0]}.",
    ]


def claims(found: Tables) -> list[Claim]:
    start = first(found["summary"], model=START, gradients=MEASURED)
    levels = {"alignment": ("Median alignment", 0.0), "spearman": ("Spearman, batch against own, minus one half", 0.5)}
    return [
        Claim(words, ours.above(level) if ours else None, round(paper.PROBE[key] - level, 3), reason=REASON, kind=PLAIN)
        for key, (words, level) in levels.items()
        for ours in [kept_as(start, key)]
    ]


OWN, BATCH = Column("own_gap", "gap along the own direction", PLAIN), Column("batch_gap", "gap, shared anchor", PLAIN)
MODEL, KIND, STATISTIC, CASE = (Column(name, name, WORDS) for name in ("model", "gradients", "statistic", "case"))
VALUE, SHARES = Column("value", "value", PLAIN), ("positive", "top_overlap")
SUMMARY = [Column(key, words, PERCENT if key in SHARES else PLAIN) for key, words in STATISTICS.items()]
PROBE = Study(
    name="probe",
    title="The shared anchor against each pair's own",
    question="Does the anchor of a batch rank pairs as each pair's own direction would, and more than chance does?",
    grid=grid,
    observe=batch_against_own,
    tables=tables,
    findings=findings,
    claims=claims,
    differs="1,984 pairs in 31 anchor batches of 64, as in the paper, there of a 7B model; both gaps to first order. "
    "A claim asks whether the alignment is above zero and the correlation above one half; the paper has no column of "
    "orthogonal gradients. Figures show every eighth pair of the first seed.",
    exhibits=(
        Cloud("gaps", "pairs", "Gap of the batch probe against the pair's own", OWN, BATCH, MODEL),
        Histogram("alignment", "pairs", "Alignment", Column("alignment", "alignment with the anchor", PLAIN), MODEL),
        Pivot("statistics", "Beside the paper's figures", (STATISTIC,), CASE, VALUE),
        Sheet("summary", "Every statistic", (MODEL, KIND, *SUMMARY)),
    ),
)
