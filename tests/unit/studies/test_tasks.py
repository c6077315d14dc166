"""What is left to do, in which order, how long it takes, and how many at once."""

import importlib.util
import json
from dataclasses import replace

import pytest

from gapo.errors import InputError
from gapo.runs.recipe import recipe_hash
from gapo.studies import side_by_side
from gapo.studies.conduct import gathered, plan
from gapo.studies.scale import MINI, SMOLLM2
from gapo.studies.side_by_side import Tried, processes_for
from gapo.studies.store import Store, observer_name, takes, write_json
from gapo.studies.tasks import Setting, tasks_of, to_do, waves
from gapo.studies.times import Times, in_words
from study_of_tests import SCALE, TINY, look


@pytest.fixture
def setting(tmp_path):
    return Setting(SCALE, Store(tmp_path), {}, 2)


@takes(7)
def long_look(run):
    return []


def finish(setting, task):
    folder = setting.store.root / task.address
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text("model: {name: lab}")
    write_json(folder / "evals.json", {"seconds": 1})


def test_what_is_trained_and_seen_is_not_done_again(setting):
    tasks = tasks_of([TINY], setting)
    assert to_do(tasks, setting.store) == tasks
    first = next(task for task in tasks if task.trained)
    finish(setting, first)
    assert first in to_do(tasks, setting.store)  # nobody has looked at it
    setting.store.keep(first.address, look, [{"steps": 2}])
    assert to_do(tasks, setting.store) == [task for task in tasks if task is not first]


def test_a_run_cut_short_is_to_be_done(setting):
    task = next(task for task in tasks_of([TINY], setting) if task.trained)
    finish(setting, task)
    (setting.store.root / task.address / "evals.json").write_text('{"seconds": ')
    assert not setting.store.trained(task.address)


def test_a_run_that_stopped_is_not_tried_again(setting):
    task = next(task for task in tasks_of([TINY], setting) if task.trained)
    write_json(setting.store.root / task.address / "stopped.json", {"reason": "not finite"})
    assert task not in to_do([task], setting.store)
    assert setting.store.stopped(task.address) == "not finite"


def test_two_studies_look_at_one_run(setting):
    other = replace(TINY, name="other", observe=gathered)
    for task in tasks_of([TINY, other], setting):
        assert task.observers == (look, gathered)
    assert len(tasks_of([TINY, other], setting)) == len(tasks_of([TINY], setting))


def test_an_observer_that_is_changed_asks_again(tmp_path, setting):
    names = []
    for version, body in enumerate(("return []", "return []", "return [{}]")):
        (tmp_path / f"v{version}").mkdir()
        path = tmp_path / f"v{version}" / "seen.py"
        path.write_text(f"def seen(run):\n    {body}\n")
        spec = importlib.util.spec_from_file_location("seen", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        names.append(observer_name(module.seen))
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("seen.seen-")


def test_a_run_waits_for_the_one_it_comes_after(setting):
    groups = waves(tasks_of([TINY], setting))
    assert [len(group) for group in groups] == [4, 2]
    assert {task.after for task in groups[1]} <= {task.address for task in groups[0]}
    assert all(recipe_hash(task.recipe) == task.address for task in groups[1])
    assert all(task.after in task.recipe["data"]["train"] for task in groups[1])


def test_timed_tasks_stand_alone_and_in_their_place(setting):
    one, two = (replace(task, after=None) for task in tasks_of([TINY], setting)[:2])
    timed = replace(two, timed=True)
    assert waves([one, timed, timed, one, two]) == [[one], [timed, timed], [one, two]]


def test_missing_runs_are_named_with_the_way_out(setting):
    with pytest.raises(InputError, match=r"tiny: 6 of its runs are not in .*without --from-runs"):
        gathered(TINY, setting, [])


def test_a_plan_counts_looks_and_not_what_is_there(setting):
    def seconds() -> tuple[float, float]:
        found = plan([replace(TINY, observe=long_look)], setting)
        return found.seconds, found.whole_seconds

    trained = [task for task in tasks_of([TINY], setting) if task.trained]
    looks = 6 * 7 * SCALE.run_seconds / MINI.run_seconds
    whole = len(trained) * SCALE.run_seconds + looks
    assert seconds() == pytest.approx((whole, whole))
    finish(setting, trained[0])
    assert seconds() == pytest.approx((whole - SCALE.run_seconds, whole))


def test_a_plan_goes_by_the_seconds_of_earlier_runs(setting):
    tasks = sorted(tasks_of([TINY], setting), key=lambda task: not task.trained)
    times = Times(setting.store.root / "times.jsonl")
    parts = [task.parts(SCALE) for task in tasks]
    assert times.total(tasks, parts, 1) == SCALE.run_seconds * sum(task.trained for task in tasks)
    times.keep({tasks[0].kind: 4.0})
    times.keep({tasks[0].kind: 6.0, tasks[0].look(tasks[0].observers[0]): 2.0})
    assert times.expected(parts[:1]) == [7.0]
    times.keep({tasks[1].kind: 50.0})
    assert times.expected(parts[:2]) == [7.0, 50.0]
    assert times.total([replace(tasks[0], timed=True), tasks[0]], [parts[0]] * 2, 2) == 7.0 + 3.5
    assert plan([TINY], setting).runs == plan([TINY], setting).left == 6
    assert [in_words(s) for s in (12, 600, 9000)] == ["12 s", "10 min", "2 h 30 min"]


def test_runs_go_side_by_side_only_where_that_was_faster(tmp_path, monkeypatch):
    monkeypatch.setattr(side_by_side, "cores", lambda: 2)
    assert Tried(2, 10.0, 7.0).processes == 2
    assert Tried(2, 7.0, 10.0).processes == 1
    assert processes_for(100, SCALE, tmp_path, try_it=False) == 1
    write_json(tmp_path / "machine.json", {"cores": 2, "one_after_the_other": 10.0, "side_by_side": 7.0})
    side = replace(SCALE)
    monkeypatch.setattr(side_by_side, "MINI", side)
    assert processes_for(100, side, tmp_path) == 2
    assert processes_for(1, side, tmp_path) == 1
    assert processes_for(100, SMOLLM2, tmp_path) == 1
    monkeypatch.setattr(side_by_side, "cores", lambda: 4)  # another machine: what was tried does not count
    assert processes_for(100, side, tmp_path, try_it=False) == 1


def test_a_machine_is_tried_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(side_by_side, "cores", lambda: 2)
    monkeypatch.setattr(side_by_side, "tried", lambda: calls.append(1) or Tried(2, 10.0, 7.0))
    monkeypatch.setattr(side_by_side, "MINI", SCALE)
    assert [processes_for(40, SCALE, tmp_path) for _ in range(2)] == [2, 2]
    assert processes_for(3, SCALE, tmp_path / "new") == 1
    assert len(calls) == 1
    assert json.loads((tmp_path / "machine.json").read_text())["side_by_side"] == 7.0
