"""The pictures of docs/method.md show the literal method's numbers."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import literal
from gapo.diagnostics.landscape import Plane
from gapo.lab.load import load_pairs, load_start
from gapo.model.double import double_copy, kept_double
from gapo.model.perturb import global_norm
from gapo.pairs.encode import Encoder
from gapo.pairs.noise import flip
from gapo.report import method_figures as pictures

DOCS = Path(__file__).parents[2] / "docs"
BETA, GAMMA, RADIUS = 2.5, 0.1, 0.05


@pytest.fixture(scope="module")
def found():
    """What the figures measure, on a coarse grid: its left end and its middle are places of their own."""
    return pictures.measured(points=10)


@pytest.fixture(scope="module")
def truth():
    """Margin, gap, own term and slope of each pair: a loop over pairs and tokens in float64."""
    model, tokenizer = load_start()
    model = double_copy(model)
    noisy, flipped = flip(load_pairs("train")[:32], 0.2, seed=0)
    pairs = [Encoder(tokenizer, 512).encode(pair) for pair in noisy]
    with kept_double():
        g = literal.mean_margin_gradient(model, pairs)
        anchor, length = literal.at_anchor(model, g, RADIUS), float(literal.norm(g))
        rows = []
        for pair in pairs:
            here = literal.margin(model, pair)
            own = torch.autograd.grad(here, list(model.parameters()))
            with torch.no_grad():
                there = literal.margin(anchor, pair)
            slope = sum(float((a * b).sum()) for a, b in zip(own, g, strict=True)) / length
            size = float(literal.norm(own)) ** 2
            here = here.detach()
            rows.append((float(here), float(here - there), RADIUS * size / (32 * length), RADIUS * slope))
    return np.array(rows), np.array(flipped)


def test_the_batch_is_measured_as_the_literal_method_has_it(found, truth):
    (margin, gap, own, slope), flipped = truth[0].T, truth[1]
    assert found.column("margin") == pytest.approx(margin, abs=1e-9)
    assert found.column("gap") == pytest.approx(gap, abs=1e-9)
    assert found.column("weight") == pytest.approx(BETA / (1 + np.exp(BETA * gap - GAMMA)), abs=1e-9)
    assert found.column("gap_self") == pytest.approx(own, abs=1e-6)
    assert found.column("gap_others") == pytest.approx(slope - own, abs=1e-6)
    assert (found.column("flipped") > 0).tolist() == flipped.tolist()
    assert (found.brittle, found.stable) == (gap.argmax(), gap.argmin())
    at_radius = int(np.flatnonzero(np.isclose(found.distances, RADIUS))[0])
    assert found.line[0] - found.line[at_radius] == pytest.approx(gap, abs=1e-9)


def test_the_plane_holds_theta(found):
    """Margins are smooth: the grid's values around theta give theta's own back by interpolation."""
    from scipy.interpolate import RectBivariateSpline

    for place, pair in enumerate((found.brittle, found.stable)):
        surface = RectBivariateSpline(found.up, found.right, found.plane[:, :, place])
        assert surface(0, 0)[0, 0] == pytest.approx(found.column("margin")[pair], abs=2e-3)
        anchor = found.column("margin")[pair] - found.column("gap")[pair]
        assert surface(0, -RADIUS)[0, 0] == pytest.approx(anchor, abs=2e-3)


def test_axes_of_a_plane_are_orthogonal_and_of_length_one():
    torch.manual_seed(0)
    first, second = ([torch.randn(3, 4), torch.randn(5)] for _ in range(2))
    plane = Plane.through([], first, second)
    assert global_norm(plane.along) == pytest.approx(1)
    assert global_norm(plane.across) == pytest.approx(1)
    assert sum(float((a * b).sum()) for a, b in zip(plane.along, plane.across, strict=True)) == pytest.approx(
        0, abs=1e-6
    )


def test_the_page_and_its_pictures_show_these_numbers(found, truth):
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    assert pictures.numbers(found) in page
    margin, gap, *_ = truth[0].T
    weight = BETA / (1 + np.exp(BETA * gap - GAMMA))
    shown = {name: (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8") for name in pictures.FIGURES}
    shown = {name: text.replace("\u2212", "-") for name, text in shown.items()}
    for pair in (gap.argmax(), gap.argmin()):
        assert f"margin {margin[pair]:.3f}" in shown["landscape"]
        assert f"anchor: {margin[pair] - gap[pair]:.3f}" in shown["landscape"]
        assert f"gap {gap[pair]:.4f}" in shown["along-the-way"]
        assert f"weight {weight[pair]:.3f}" in shown["weight"]
    own, slope = truth[0].T[2:]
    assert f"{own.sum() / slope.sum():.0%} of all gaps" in shown["shares"]
    for text in shown.values():
        assert not re.search(r"(href|src)=\"(https?:)?//", text)
