"""Pictures of the explorer for the documents: the lab's own pairs, a fifth of the labels flipped, probed for real.

They are drawn only when asked for: `make screenshots`.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gapo.report.elements import Section, document, paragraph
from gapo.report.explorer import explorer
from gapo.report.markup import tag
from gapo.report.pair_view import PairColumn, PairHistory, PairText, PairView

FOLDER = os.environ.get("GAPO_SCREENSHOTS")
MOST_BYTES = 250_000
PAIRS = 1024
BETA, GAMMA = 2.5, 0.1
STEPS = (0, 25, 50, 75, 100)
TITLES = {
    "weight": ("Weight", "How hard training pulls at the pair."),
    "gap": ("Gap", "How far the margin falls at the anchor."),
    "margin": ("Margin", "Chosen minus rejected log-prob per token."),
    "grad_norm": ("Gradient norm", "Length of the margin's gradient."),
    "alignment": ("Alignment", "Cosine of the gradient with the batch's direction."),
    "gap_self": ("Own gap", "What the pair's own gradient adds to its gap."),
    "gap_others": ("Others' gap", "What the other pairs' gradients add."),
    "self_share": ("Own share", "Own gap as a share of the first-order gap."),
    "curvature": ("Curvature", "First-order gap minus measured gap."),
    "length_term": ("Length term", "1/|chosen| + 1/|rejected|, in tokens."),
    "chosen_tokens": ("Chosen tokens", ""),
    "rejected_tokens": ("Rejected tokens", ""),
}


def lab_view() -> PairView:
    """The lab's pairs under its start model, and a short real training for their history."""
    import torch

    import gapo
    from gapo.diagnostics.probing import ProbeSettings, probe_pairs
    from gapo.lab.load import load_start
    from gapo.pairs.collate import collate
    from gapo.pairs.encode import Encoder, encode_pairs
    from gapo.pairs.pair import PairSet

    pairs, flipped = gapo.flip(PairSet(tuple(gapo.load_pairs("lab"))[:PAIRS], name="lab"), 0.2, seed=0)
    model, tokenizer = load_start()
    encoded, _ = encode_pairs(pairs, Encoder(tokenizer))
    pad_id, settings = int(tokenizer.pad_token_id), ProbeSettings(batch_pairs=64, beta=BETA, gamma=GAMMA)
    optimiser, rng, looks = torch.optim.AdamW(model.parameters(), lr=1e-4), np.random.default_rng(0), []
    for step in range(max(STEPS) + 1):
        if step in STEPS:
            looks.append(known_of(probe_pairs(model, encoded, pad_id, settings)))
        learn(model, optimiser, collate([encoded[i] for i in rng.choice(PAIRS, 32, replace=False)], pad_id))
    last = looks[-1]
    columns = [PairColumn(key, title, "number", last[key].tolist(), note) for key, (title, note) in TITLES.items()]
    columns.append(PairColumn("flipped", "Flipped", "truth", list(flipped), "Whether the label was turned round."))
    series = {key: np.array([look[key] for look in looks]).T for key in ("weight", "gap", "margin")}
    history = [PairHistory(STEPS, {key: series[key][i].tolist() for key in series}) for i in range(len(pairs))]
    texts = [PairText(str(pair.prompt), pair.chosen, pair.rejected) for pair in pairs]
    ids = [pair.id for pair in pairs]
    return PairView(ids, columns, texts, history, colours=("flipped", "length_term"), beta=BETA, gamma=GAMMA)


def known_of(table) -> dict[str, np.ndarray]:
    found = {name: table[name].to_numpy() for name in table.column_names if name not in ("pair_id", "flipped")}
    first_order = found["gap_self"] + found["gap_others"]
    found["self_share"] = found["gap_self"] / first_order
    found["curvature"] = first_order - found["gap"]
    found["length_term"] = 1 / found["chosen_tokens"] + 1 / found["rejected_tokens"]
    return found


def learn(model, optimiser, batch) -> None:
    """One step of SimPO."""
    from torch.nn.functional import logsigmoid

    from gapo.model.policy import pair_logps

    optimiser.zero_grad()
    (-logsigmoid(BETA * pair_logps(model, batch).margin - GAMMA)).mean().backward()
    optimiser.step()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "lab.html"
    head = (
        tag("p", "gapo report", class_="kicker"),
        tag("h1", "Which pairs should training not trust?"),
        paragraph(f"{PAIRS:,} preference pairs of the lab, a fifth of them with the label turned round.", "lead"),
    )
    path.write_text(document("Pairs of the lab", head, [Section("pairs", "The pairs", explorer(lab_view()))]))
    return path


@pytest.mark.skipif(not FOLDER, reason="pictures are drawn when GAPO_SCREENSHOTS names a folder")
def test_pictures_of_the_explorer(show, page_file):
    folder = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    wide = {"viewport": {"width": 1240, "height": 1010}, "reduced_motion": "reduce"}
    phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "reduced_motion": "reduce"}
    for scheme in ("light", "dark"):
        page = show(page_file, **wide, color_scheme=scheme)
        settled(page, folder / f"explorer-{scheme}.png")
        if scheme == "light":
            box = page.locator(".over").bounding_box()
            page.mouse.move(box["x"] + 62, box["y"] + 16)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.6, steps=5)
            page.mouse.up()
            settled(page, folder / "explorer-selection.png")
            page.locator(".row").nth(2).click()
            page.wait_for_selector("dialog .why")
            settled(page, folder / "explorer-pair.png")
    page = show(page_file, **phone, is_mobile=True, has_touch=True)
    page.locator(".tools").scroll_into_view_if_needed()
    page.locator(".tools").evaluate("e => window.scrollTo(0, e.getBoundingClientRect().top + scrollY - 12)")
    settled(page, folder / "explorer-phone.png")
    page.locator(".row").nth(2).tap()
    page.wait_for_selector("dialog .why")
    settled(page, folder / "explorer-phone-pair.png")


def settled(page, path: Path) -> None:
    page.wait_for_timeout(300)
    page.screenshot(path=path)
    assert path.stat().st_size < MOST_BYTES
