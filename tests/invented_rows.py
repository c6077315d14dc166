"""What studies of pairs could see in a run: invented numbers that differ between runs, the same each time."""

from gapo.studies.consensus_looks import DOUBTED
from gapo.studies.consensus_looks import SIZES as LEADERS
from gapo.studies.labels_looks import GRADIENTS, MARGIN, SCOPES, STATES, WIDTHS
from gapo.studies.looks import SIGNALS, SIZES
from gapo.studies.real_probe import LOW, MEASURES
from gapo.studies.real_probe_looks import SIZES as REAL_SIZES


def mechanism(task, outcome, number):
    shift = 0.01 * number
    return [
        {
            "epoch": epoch,
            "pairs": 2048,
            "clean": 1.3 + shift,
            "flipped": 1.3 + shift - 0.1 * epoch,
            "relative": -0.1 * epoch / (1.3 + shift),
            "bottom": 0.2 + 0.1 * epoch + shift,
            "middle": 0.2,
            "top": 0.2 - 0.05 * epoch,
            "bottom_minus_top": 0.15 * epoch + shift,
            "spread": 0.1 + shift,
        }
        for epoch in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]


def probe(task, outcome, number):
    names = ("positive", "alignment", "spearman", "top_overlap", "norm_spread", "alignment_spread")
    found = [{"gradients": kind, **dict.fromkeys(names, 0.5 + 0.1 * number)} for kind in ("measured", "orthogonal")]
    if task.recipe["train"]["seed"]:
        return found
    return found + [
        {"gradients": "pair", "alignment": 0.01 * k, "own_gap": 0.1 * k, "batch_gap": 0.05 * k + number}
        for k in range(20)
    ]


def confounds(task, outcome, number):
    if not task.trained:
        names = ("pooled", "median", "variance", "gap_self", "gap_others", "length_term")
        return [{"what": "size", "batch_pairs": n, **dict.fromkeys(names, 1 / n + 0.1 * number)} for n in SIZES]
    found = [{"what": "method", **outcome}]
    if task.recipe["objective"]["name"] == "gapo":
        found += [
            {"what": "signal", "quarter": quarter, "signal": name, "area": 0.5 + 0.01 * quarter * place + 0.01 * number}
            for quarter in (1, 2, 3, 4)
            for place, name in enumerate(SIGNALS)
        ]
    return found


def selection(task, outcome, number):
    if not task.trained:
        return [{"what": "scores", "gap": 0.1, "gap_spread": 0.05}]
    norms = [{"what": "norms", "part": (k + 1) / 5, "grad_norm": 1 + number + k / 10} for k in range(5)]
    return [{"what": "outcome", **outcome, "kl": 0.1 + number, "grad_norm": 1 + number}, *norms]


def real_noise(task, outcome, number):
    names = ("accuracy", "pairs", "likelihood_accuracy", "margin", "seconds", "steps")
    found = {"what": "outcome", **{name: outcome[name] for name in names}, "accuracy_before": 0.5, "kl": 0.1 * number}
    if task.recipe["noise"]["rate"]:
        weights = ("clean_weight", "flipped_weight", "bottom", "middle", "top", "bottom_minus_top", "weight_spread")
        areas = ("weight_area", "margin_area", "length_term_area")
        found |= {"relative": -0.05 * number, **dict.fromkeys((*weights, *areas), 0.5 + 0.1 * number)}
    said = {"prompt": "Who?", "before": "**I** | `you`", "after": "<b>you\u202e</b>"}
    return [found, *([{"what": "reply", **said}] if task.recipe["data"]["train"] == "courtesy" else [])]


def consensus(task, outcome, number):
    if not task.trained:
        areas = [(rate, 0.6 + rate / 10 + 0.1 * number) for rate in (0.2, 0.4)]
        rows = [{"what": "size", "rate": rate, "leaders": n, "area": a - 1 / n} for rate, a in areas for n in LEADERS]
        names = ("states", "gradients of layer 1 of 3", "gradients of head", "gradients of all layers")
        return rows + [{"what": "layer", "rate": rate, "layer": name, "area": a} for rate, a in areas for name in names]
    doubts, rate = {}, task.recipe["noise"]["rate"]
    if task.recipe["objective"]["name"] in DOUBTED:
        doubts = {"estimated": rate + 0.02 * number, "true_rate": rate, "clean_weight": 0.9}
        doubts |= {"area": 0.7 + 0.1 * number, "precision": 0.6, "flipped_weight": 0.1} if rate else {}
    return [{"what": "run", **outcome, **doubts}]


def labels(task, outcome, number):
    if not task.trained:
        return [
            {
                "what": "size",
                "width": width,
                "weights": 1000 * width,
                "loss": 0.5,
                "signal": signal,
                "rate": rate,
                "area": 0.5 + rate * number,
            }
            for width in WIDTHS
            for signal in SCOPES
            for rate in (0.2, 0.4)
        ]
    told = [
        {"signal": STATES, "area": 0.8 - 0.1 * number, "estimated": 0.2},
        {"signal": GRADIENTS, "area": 0.7 - 0.1 * number, "estimated": 0.3},
        {"signal": MARGIN, "area": 0.6 + 0.1 * number},
    ]
    return [{"what": "moment", "epoch": epoch, **row} for epoch in (0.0, 0.25, 0.5, 0.75, 1.0) for row in told]


ROWS = {"mechanism": mechanism, "probe": probe, "confounds": confounds, "selection": selection, "consensus": consensus}
ROWS |= {"labels": labels}


def real_human(task, outcome, number):
    measured = {"likelihood_accuracy": 0.5 + 0.1 * number, "pairs": 100}
    measured |= {"accuracy": 0.6 + 0.1 * number} if task.trained else {}
    named = (("hh:test", "all"), ("hh:test", "harmless-base"), ("llmbar:test", "all"))
    rows = [{"what": "accuracy", "set": name, "subset": subset, **measured} for name, subset in named]
    rows += [{"what": "task", "task": "gsm8k", "items": 30, "score": 0.1 * number}]
    return rows + (real_noise(task, outcome, number)[:1] if task.trained else [])


def real_consensus(task, outcome, number):
    if not task.trained:
        told = {"what": "told", "leaders": 400, "scope": task.recipe["train"].get("consensus_scope", "top")}
        rows = [{**told, "truth": "turned at random", "rate": rate, "area": 0.6 + rate} for rate in (0.2, 0.4)]
        return [*rows, {**told, "truth": "disputed", "rate": 0.0, "area": 0.5 + 0.1 * number}]
    doubts = {**consensus(task, outcome, number)[0], "what": "outcome", "kl": 0.1 * number}
    return [{**doubts, "accuracy_before": 0.5}]


def real_judges(task, outcome, number):
    names = ("marked", "others", "relative", "area", "rate")
    spread = {f"{name}{end}": 0.4 + 0.1 * number for name in names for end in ("", "_low", "_high")}
    rows = [{"what": "accuracy", "subset": name, "accuracy": 0.6} for name in ("agree", "disagree")]
    rows += [{"what": "finder", "signal": name, **spread} for name in ("weight", "margin")]
    rows += [{"what": "tier", "tier": k, "pairs": 10.0, **spread} for k in range(3)]
    return [*rows, {"what": "outcome", "kl": 0.1, "weight_spread": 0.2, "marked_pairs": 5, "other_pairs": 9, **spread}]


def real_probe(task, outcome, number):
    rows = [{"what": "size", "batch_pairs": n, **dict.fromkeys(MEASURES, 1 / n + 0.1 * number)} for n in REAL_SIZES]
    return [*rows, {"what": "bf16", "batch_pairs": 16, **dict.fromkeys(LOW, 0.5 + 0.1 * number)}]


def real_peers(task, outcome, number):
    return [{"accuracy": outcome["accuracy"], "seconds": 10 + number, "first_loss": 0.7, "last_loss": 0.6}]


ROWS |= {"real/human": real_human, "real/judges": real_judges, "real/probe": real_probe, "real/peers": real_peers}
ROWS |= {"real/noise": real_noise, "real/tuning": real_noise, "real/consensus": real_consensus}


def rows_for(study, task, outcome):
    """The rows of one run: its outcome, unless the study looks closer."""
    number = int(task.address[:8], 16) / 2**32
    return ROWS[study.name](task, outcome, number) if study.name in ROWS else [outcome]
