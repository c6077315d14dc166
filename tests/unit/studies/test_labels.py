"""What tells wrong labels over training and by size: measured on a small run of the lab, said from the tables alone."""

import numpy as np
import pytest
import torch

from gapo.lab.learn import Schedule, build_model
from gapo.lab.tokenizer import build_tokenizer
from gapo.studies import labels_looks
from gapo.studies.catalogue import CATALOGUE
from gapo.studies.labels_looks import GRADIENTS, MARGIN, STATES, told_by, told_by_size
from gapo.studies.probes import Probed
from gapo.studies.rows import where
from gapo.studies.store import StoredRun

STUDY = CATALOGUE["labels"]


@pytest.fixture(scope="module")
def data():
    """64 pairs of the lab as its start model reads them, a quarter of them flipped."""
    import gapo
    from gapo.pairs.encode import Encoder, encode_pairs

    policy = gapo.load_policy("lab", say=lambda _: None)
    noisy, _ = gapo.flip(gapo.load_pairs("lab", limit=64), 0.25, seed=0)
    encoded, _ = encode_pairs(noisy, Encoder(policy.tokenizer, 128))
    return Probed(policy.model, encoded, [], int(policy.tokenizer.pad_token_id))


def test_the_margin_that_ranks_is_the_models_own(data):
    from gapo.model.policy import pair_logps
    from gapo.pairs.collate import collate

    by_name = {row["signal"]: row for row in told_by(data.start, data)}
    with torch.no_grad():
        margin = pair_logps(data.start, collate(data.pairs, data.pad_id)).margin.double().numpy()
    flipped = np.array([pair.flipped for pair in data.pairs])
    # the area is the share of (flipped, clean) couples that stand in the right order
    order = (margin[flipped][:, None] < margin[~flipped]).mean()
    assert by_name[MARGIN]["area"] == pytest.approx(order, abs=1e-9)
    assert all(0 <= by_name[name]["estimated"] <= 0.5 for name in (STATES, GRADIENTS))
    assert set(by_name) == {STATES, GRADIENTS, MARGIN}


def test_sizes_are_models_of_their_own(data, monkeypatch, tmp_path):
    (tmp_path / "recipe.yaml").write_text("train: {seed: 3}\n")
    learned = []
    monkeypatch.setattr("gapo.lab.learn.learn", lambda model, *_: learned.append(model) or 0.5)
    monkeypatch.setattr(labels_looks, "WIDTHS", {32: 2, 64: 3})
    rows = told_by_size(StoredRun(tmp_path), data)
    found = [(row["width"], row["signal"], row["rate"]) for row in rows]
    assert found == [(w, name, rate) for w in (32, 64) for name in (STATES, GRADIENTS) for rate in (0.2, 0.4)]
    assert [model.config.num_hidden_layers for model in learned] == [2, 3]
    assert rows[0]["weights"] == sum(p.numel() for p in learned[0].parameters()) < rows[-1]["weights"]


def test_the_labs_own_model_is_one_of_the_sizes():
    tokenizer = build_tokenizer()
    usual = build_model(tokenizer, 0)
    assert labels_looks.WIDTHS[usual.config.hidden_size] == usual.config.num_hidden_layers
    again = build_model(tokenizer, 0, 112, 3)
    assert all(torch.equal(a, b) for a, b in zip(usual.parameters(), again.parameters(), strict=True))
    assert Schedule().steps == 900


def test_sentences_say_both_ends_and_what_is_missing():
    told = {STATES: (0.7, 0.6), GRADIENTS: (0.65, 0.55), MARGIN: (0.5, 0.9)}
    rows = [
        {"what": "moment", "rate": 0.2, "epoch": epoch, "signal": name, "area": area, "estimated": 0.25, "seed": 0}
        for name, ends in told.items()
        for epoch, area in zip((0.0, 1.0), ends, strict=True)
    ]
    rows += [
        {
            "what": "size",
            "signal": STATES,
            "rate": 0.2,
            "width": width,
            "weights": 10 * width,
            "loss": 1.0,
            "area": 0.5 + width / 100,
            "seed": 0,
        }
        for width in (20, 10)
    ]
    tables = STUDY.tables(rows)
    first, second, third = STUDY.findings(tables)
    assert "states 0.7 and 0.6, gradients 0.65 and 0.55 and margin 0.5 and 0.9" in first
    assert "estimated at the start, by states, is 25.0 %" in first
    assert second == "With 40 % flipped at random nothing was measured over training."
    assert "From 100 to 200 weights the area of states goes from 0.6 to 0.7" in third
    assert [row["width"] for row in where(tables["sizes"], rate=0.2)] == [10, 20]
