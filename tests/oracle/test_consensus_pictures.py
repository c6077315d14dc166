"""The pictures of docs/consensus.md are what their functions draw, and what they draw is so by other means too."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import mannwhitneyu

from gapo.consensus.agreement import kept
from gapo.consensus.mixture import SHAPES, Mixture
from gapo.report import consensus_figures as pictures
from gapo.report.consensus_world import RANDOM, RATES, RULE, found, world
from gapo.report.svg import svg_file

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
NAMES = re.compile(r'(?<=\bid=")[^"]*|(?<=href="#)[^"]*|(?<=url\(#)[^)]*')  # made of the drawing's own bytes


@pytest.fixture(scope="module")
def seen():
    return found()


def by_hand(rows, pair):
    """One row along the sum of the others, all of length 1, buckets evened, by a decomposition and in a loop."""
    rows = [row / np.linalg.norm(row) for row in rows]
    size = np.sqrt(np.mean(np.square(rows), axis=0))
    rows = [row / size / np.linalg.norm(row / size) for row in rows]
    parts, lengths, axes = np.linalg.svd(np.array(rows), full_matrices=False)
    share = kept(lengths**2, parts.sum(0))
    rows = [np.sqrt(share / share.max()) * (axes @ row) for row in rows]
    direction = sum(row for place, row in enumerate(rows) if place != pair)
    return rows[pair] @ direction / np.linalg.norm(direction)


@pytest.mark.parametrize("name", pictures.FIGURES)
def test_committed_pictures_are_what_the_functions_draw(name, seen):
    draw, label = pictures.FIGURES[name]
    drawn = NAMES.sub("", svg_file(draw(seen), key=name, label=label) + "\n")
    kept = NAMES.sub("", (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8"))
    assert NUMBER.sub("", drawn) == NUMBER.sub("", kept), "run: make figures"
    np.testing.assert_allclose(*(np.array(NUMBER.findall(text), dtype=float) for text in (drawn, kept)), atol=0.05)
    assert not re.search(r"(href|src)=\"(https?:)?//", kept)


def test_the_page_has_these_pictures_and_numbers():
    page = (DOCS / "consensus.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(images/([\w-]+)\.svg\)", page)) == set(pictures.FIGURES)
    assert pictures.numbers() in page, "run: make figures"


def test_alignments_and_areas_are_those_of_a_loop(seen):
    a = seen.many.alignment
    for pair in (0, 7, 399):
        assert a[pair] == pytest.approx(by_hand(seen.many.gradients, pair), abs=1e-9)
    wrong = seen.many.wrong
    above = mannwhitneyu(-a[wrong], -a[~wrong]).statistic / (wrong.sum() * (~wrong).sum())
    assert seen.many.area == pytest.approx(above)


def test_the_arrows_show_one_pair_with_either_label(seen):
    rows = seen.plane.gradients / np.linalg.norm(seen.plane.gradients, axis=1, keepdims=True)
    pair = int(np.flatnonzero(seen.plane.wrong)[0])
    others = rows.sum(0) - rows[pair]
    a = rows[pair] @ others / np.linalg.norm(others)
    shown = (DOCS / "images" / "consensus-arrows.svg").read_text(encoding="utf-8")
    assert a < 0
    for value in (a, -a):
        assert f"a = {value:.2f}".replace("-", "\u2212") in shown


@pytest.mark.parametrize("shape", SHAPES)
def test_the_density_drawn_is_the_mixtures_own(shape):
    count = SHAPES[shape][0]
    fitted = Mixture(shape, 0.2, tuple(np.linspace(0.1, 0.5, count)), (1 / count,) * count, 0.2)
    whole, _ = quad(lambda a: pictures.density(fitted, np.array([a]))[0], -20, 20, points=[0], limit=200)
    assert whole == pytest.approx(1, abs=1e-4)
    a = np.linspace(-0.5, 0.8, 14)
    right, turned = 0.8 * pictures.density(fitted, a), 0.2 * pictures.density(fitted, -a)
    np.testing.assert_allclose(fitted.wrong(a), turned / (right + turned), rtol=1e-9)


@pytest.mark.parametrize("flips", [RANDOM, RULE])
def test_flips_are_as_many_as_asked_and_nothing_else_changes(flips):
    clean, noisy = world(rate=0.0), world(rate=0.3, flips=flips)
    assert noisy.wrong.sum() == 120
    turned = np.where(noisy.wrong[:, None], -noisy.gradients, noisy.gradients)
    np.testing.assert_array_equal(turned, clean.gradients)


def test_what_the_page_says_of_its_reach_is_what_is_drawn(seen):
    for areas in seen.by_count.values():
        assert areas[-1].mean() > areas[0].mean() + 0.1  # more pairs, a truer direction
    assert (seen.by_count[0.2].mean(1) > seen.by_count[0.4].mean(1)).all()
    assert (seen.by_rate[RANDOM].mean(1) < RATES).all()
    at_40 = RATES.index(0.4)
    assert seen.by_rate[RULE][at_40].mean() > 0.4  # more labels are wrong than before
