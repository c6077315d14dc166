"""YAML gives plain values, and no more of them than somebody could have written."""

import time

import pytest
import yaml

from gapo.errors import InputError
from gapo.evaluate.judge_prompts import read_template
from gapo.pairs.yaml_text import MOST_VALUES, read_yaml
from gapo.report import read_run
from gapo.runs.recipe import read_recipe
from gapo.runs.resume import standing_of

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
TAGS = ("!!python/object/apply:os.system [ls]", "!!python/name:os.system", "!!python/module:os", "!!python/object:x {}")


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_of_python_is_an_error(tmp_path, tag):
    with pytest.raises(yaml.YAMLError):
        read_yaml(f"model: {tag}")
    (tmp_path / "recipe.yaml").write_text(f"model: {tag}\n")
    with pytest.raises(InputError, match="not a readable YAML"):
        read_recipe(str(tmp_path / "recipe.yaml"))


def test_aliases_of_aliases_are_refused_at_once_wherever_yaml_is_read(tmp_path):
    (tmp_path / "recipe.yaml").write_text(BOMB)
    (tmp_path / "judge.yaml").write_text(BOMB)
    began = time.monotonic()
    for read in (
        lambda: read_recipe(str(tmp_path / "recipe.yaml")),
        lambda: read_run(tmp_path),
        lambda: read_template(tmp_path / "judge.yaml"),
    ):
        with pytest.raises(InputError, match="more than 100,000 values"):
            read()
    assert standing_of(tmp_path).recipe is None
    assert time.monotonic() - began < 5


def test_an_anchor_that_contains_itself_is_refused():
    for text in ("&a [*a]", "&a {k: *a}", "a: &a [{b: *a}]"):
        with pytest.raises(yaml.YAMLError, match="contain itself"):
            read_yaml(text)


def test_anchors_that_people_write_work():
    text = "base: &base {lr: 1, seed: 0}\none: {<<: *base, seed: 1}\ntwo: [*base, *base]\n"
    assert read_yaml(text) == yaml.safe_load(text)
    assert read_yaml("") is None
    assert len(read_yaml("\n".join(f"- {n}" for n in range(1000)))) == 1000 < MOST_VALUES
