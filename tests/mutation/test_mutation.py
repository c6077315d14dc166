"""The machinery itself: which wrongs it makes, and that a trial tells a wrong from none."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from mutation.operators import mutants
from mutation.report import Row, keyed, page
from mutation.targets import TESTS, files_for, source_of
from mutation.trials import KILLED, SURVIVED, TIMED_OUT, Baseline, baseline, trial

NOISE = "pairs.noise"
WRONGS = [  # one of each kind, in a module that needs no model
    ("operator", "rate <= 1 -> 0 <= rate < 1"),
    ("constant", "0 -> 1"),
    ("condition", "pair.swapped() if not now else pair"),
    ("twin", "pair.chosen -> pair.rejected"),
    ("without", "round(rate * len(pairs)) -> rate * len(pairs)"),
    ("dropped", "now[np.asarray(order[:asked], dtype=np.int64)] = True -> nothing"),
]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b", ["x = a - b"]),
        ("x = a < b", ["x = a <= b"]),
        ("x = -a", ["x = a"]),
        ("x = 3", ["x = 4", "x = 6"]),
        ("x = 0.0", ["x = 1.0"]),
        ("x = True", ["x = False"]),
        ("x = a and b", ["x = a or b"]),
        ("x = a.detach()", ["x = a"]),
        ("x = p.chosen_mean", ["x = p.rejected_mean"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x = f(x)", ["pass"]),
        ("f(x)", ["pass"]),
        ("x += y", ["x -= y", "pass"]),
        ("if a:\n    f()", ["if not a:\n    f()", "if a:\n    pass"]),
        ("x = [a for a in b if a]", ["x = [a for a in b]"]),
        ("with f():\n    g()", ["if True:\n    g()", "with f():\n    pass"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("def f(a: int=3):\n    pass", ["def f(a: int=4):\n    pass", "def f(a: int=6):\n    pass"]),
        ("if a:\n    raise ValueError(1 + 1)", ["if not a:\n    raise ValueError(1 + 1)", "if a:\n    pass"]),
    ],
)
def test_a_line_has_these_wrongs(source, expected):
    assert [ast.unparse(mutant.tree) for mutant in mutants(source)] == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Words."""',
        "def f():\n    return None",
        "import a",
        "assert a + 1",
        "__all__ = [1]",
        "logger.info(1 + 1)",
        "x: int",
        "x = f'{1 + 1}'",
    ],
)
def test_what_no_test_should_pin_is_left_alone(source):
    assert not list(mutants(source))


def test_a_mutant_knows_which_lines_must_run_for_it_to_show():
    inside, default = "def f(a=1):\n    return g(\n        a + 2\n    )", "1 -> 2"
    found = {mutant.change: (mutant.statement, mutant.at_import) for mutant in mutants(inside)}
    assert found["a + 2 -> a - 2"] == ((2, 4), False)
    assert found[default] == ((1, 1), True)


def test_only_tests_that_run_the_statement_are_run():
    slow = {f"t.py::c[{i}]": [2] for i in range(40)}
    known = Baseline({"t.py::a": 0.0} | dict.fromkeys(slow, 0.5), {"m": {"t.py::a": [1, 2], "t.py::b": [5], **slow}})
    made = {mutant.line: mutant for mutant in mutants("def f():\n    g()\n    h()")}
    tests = known.tests_for("m", made[2])
    assert tests[0] == "t.py::a"
    assert len(tests) == 1 + 10  # a quarter of the cases of c, which take 20 s
    assert known.tests_for("m", made[3]) == []


@pytest.fixture(scope="module")
def known():
    return baseline({NOISE: files_for(NOISE)[:1]})


@pytest.fixture(scope="module")
def noise():
    return list(mutants(source_of(NOISE).read_text()))


@pytest.mark.parametrize(("kind", "words"), WRONGS, ids=[kind for kind, _ in WRONGS])
def test_a_wrong_is_noticed_and_named(known, noise, kind, words):
    wrong = next(mutant for mutant in noise if mutant.kind == kind and words in mutant.change and mutant.line > 30)
    found = trial(NOISE, wrong, known.tests_for(NOISE, wrong), limit=60)
    assert found.verdict == KILLED, wrong.name
    assert found.by.startswith("tests/unit/pairs/test_flip_rules.py::test_")


def test_no_wrong_at_all_survives_and_an_endless_one_does_not(known, noise):
    none = replace(noise[0], tree=ast.parse(source_of(NOISE).read_text()), at_import=True)
    tests = known.tests_for(NOISE, none)
    assert len(tests) > 10
    assert trial(NOISE, none, tests, limit=60).verdict == SURVIVED
    endless = replace(none, tree=ast.parse("while True: pass"))
    assert trial(NOISE, endless, tests, limit=2).verdict == TIMED_OUT
    assert trial(NOISE, none, [], limit=0).verdict == SURVIVED  # a statement that no test runs


def test_the_page_counts_what_was_noticed():
    source = "def f():\n    return a + b"
    rows = [
        Row(*key, line=mutant.line, kind=mutant.kind, verdict=verdict, by="")
        for (key, mutant), verdict in zip(keyed(NOISE, source), (KILLED, SURVIVED), strict=True)
    ]
    told = page(rows)
    assert "**1 of 2 mutants, 50.0%**" in told
    there_are = len(list(mutants(source_of(NOISE).read_text())))
    assert f"| `pairs.noise` | {there_are} | 2 | 1 | 0 | 1 | 50.0% |" in told
    assert f"- `pairs.noise` line 2, `{rows[1].change}`." in told


def test_every_module_has_its_source_and_its_tests():
    for module in TESTS:
        assert source_of(module).exists()
        assert files_for(module)
