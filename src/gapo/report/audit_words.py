"""An audit in words: the result in a sentence, its key numbers, what to be careful with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapo.report.wording import NONE, counted, duration, percent, plain

NAMES = {
    "weight": "little weight",
    "gap": "a large gap",
    "gap_self": "a large own term",
    "gap_others": "a small term of the others",
    "margin": "a small margin",
    "grad_norm": "a large gradient norm",
    "length_term": "short responses",
}
TRUTHS = {"flipped": "flipped labels", "disagree": "labels the second judge does not share"}
STRONG, WEAK = 0.5, 0.2  # of a rank correlation, in words
SURE_ORDER = 0.9  # Spearman between compositions from which on single pairs may be compared
FAIR_ORDER = 0.95  # of first-order and measured gaps


def result_sentence(about: Mapping[str, Any]) -> str:
    """What came out, in one sentence."""
    found = about["summary"]
    gap, order = found["gap"], found["order_between_compositions"]["mean"]
    start = (
        f"{counted(found['pairs'], 'pair')} of {about['data']} scored at {about['model']}: the median gap is "
        f"{plain(gap['median'], 3)} (80\u00a0% of pairs from {plain(gap['low'], 3)} to {plain(gap['high'], 3)})"
    )
    batch = "nothing is known of how it depends on the batch" if order is None else _order_clause(order)
    return f"{start}, {batch}, and its weight {_follows(found['weight_and_length'])} length."


def _order_clause(order: float) -> str:
    words = "hardly depends" if order >= SURE_ORDER else "depends partly" if order >= STRONG else "depends mostly"
    return f"its order {words} on which pairs share a batch (Spearman {plain(order, 2)} between compositions)"


def _follows(value: float | None) -> str:
    size = abs(value or 0)
    return "follows" if size >= STRONG else "partly follows" if size >= WEAK else "hardly follows"


def key_numbers(about: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What it is, the number, a note."""
    found = about["summary"]
    gap, spread, weight = found["gap"], found["gap_spread"], found["weight"]
    settings = about["plan"]["settings"]
    items = [
        ("pairs scored", f"{found['pairs']:,}", f"of {counted(about['counts']['rows'], 'row')}"),
        ("chosen preferred", percent(found["margin_above_zero"]), "pairs with a margin above 0"),
        ("gap, median", plain(gap["median"], 3), f"from {plain(gap['low'], 3)} to {plain(gap['high'], 3)}"),
        ("gap spread, median", plain(spread["median"], 3), f"{counted(settings['compositions'], 'composition')}"),
        ("weight, median", plain(weight["median"], 3), f"from {plain(weight['low'], 3)} to {plain(weight['high'], 3)}"),
        ("order kept", plain(found["order_between_compositions"]["mean"], 2), "Spearman between compositions"),
        ("self share", percent(found["self_share"]), f"of all gaps, {settings['batch_pairs']} pairs a batch"),
        ("weight and length", plain(found["weight_and_length"], 2), "Spearman with 1/|w| + 1/|l|"),
    ]
    for truth, rows in found["found"].items():
        best = max(rows, key=lambda row: row["area"])
        interval = f"{plain(best['low'], 2)} to {plain(best['high'], 2)}"
        items.append(
            (f"finds {truth}", plain(best["area"], 2), f"area under ROC of {NAMES[best['signal']]}, {interval}")
        )
    return [item for item in items if item[1] != NONE]


def cautions(about: Mapping[str, Any]) -> list[str]:
    """What a reader should know before ranking pairs by these numbers."""
    found, settings = about["summary"], about["plan"]["settings"]
    order, share = found["order_between_compositions"]["mean"], found["own_part_of_variance"]
    told = []
    if settings["compositions"] == 1:
        told.append("There is one composition, so nothing is known of how gaps depend on the batch.")
    elif settings["block_pairs"] <= settings["batch_pairs"]:
        told.append("All pairs share one anchor batch, so every composition is the same and spreads say nothing.")
    elif about["spread_seen"] < 0.8:
        told.append(
            f"Compositions were drawn within blocks of {settings['block_pairs']} pairs, so spreads are about "
            f"{percent(1 - about['spread_seen'])} smaller than over batches of all pairs."
        )
    if order is not None and order < SURE_ORDER and settings["block_pairs"] > settings["batch_pairs"]:
        told.append(
            f"Between compositions the order of gaps agrees with Spearman {plain(order, 2)} only: compare groups of "
            "pairs, not single ones, or raise --batch-pairs and --compositions."
        )
    if share is not None and share > 0.8:
        told.append(
            f"{percent(min(share, 1.0))} of the gaps' variance comes from each pair's own share of the direction: "
            "the gap tells mostly how large a pair's gradient is, not whether other pairs contradict it."
        )
    if abs(found["weight_and_length"] or 0) >= STRONG:
        told.append("The weight follows the responses' length: a short pair may weigh little for that alone.")
    if found["not_finite"]:
        told.append(f"{counted(found['not_finite'], 'pair')} gave no finite gap and have none in the table.")
    agreement = found["first_order_and_measured"]
    if not settings["exact"] and agreement is not None and agreement < FAIR_ORDER:
        told.append(
            f"First-order gaps agree with measured ones with Spearman {plain(agreement, 2)} only: use --exact, or a "
            "smaller --radius."
        )
    if settings["bank"] == "bfloat16":
        told.append("Gradients were kept in bfloat16, each to about 0.2\u00a0%, because memory held no more.")
    return told


def how_measured(about: Mapping[str, Any]) -> str:
    """What the gap is here, exact or not."""
    settings, found = about["plan"]["settings"], about["summary"]
    batches = f"in {counted(settings['compositions'], 'random composition')} of {settings['batch_pairs']} pairs a batch"
    agreement = plain(found["first_order_and_measured"], 3)
    if settings["exact"]:
        how = f"measured at the anchor {batches}; to first order it would have the same order to Spearman {agreement}"
    else:
        how = f"taken to first order {batches}; measured at the anchors of the first one, Spearman {agreement}"
    return f"The gap is {how}. Seed {settings['seed']}, radius {settings['radius']:g}."


def length_sentence(value: float | None) -> str:
    """Whether length alone could explain the weights."""
    if value is None:
        return "All weights or all lengths are equal, so nothing can be said about length."
    ends = {True: "short responses weigh more", False: "short responses weigh less"}[value > 0]
    words = f"The weight {_follows(value)} length: Spearman {plain(value, 2)} with 1/|w| + 1/|l|"
    return f"{words}, {ends}." if abs(value) >= WEAK else f"{words}."


def time_sentence(seconds: Mapping[str, float | None]) -> str:
    """The estimate beside what it took."""
    scoring, estimate = duration(seconds["scoring"]), seconds.get("estimate")
    return f"Scoring took {scoring}" + ("." if estimate is None else f"; the estimate was {duration(estimate)}.")
