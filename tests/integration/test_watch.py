"""One real run of the lab, watched while it trains; then its page, its record of pairs, and a comparison."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pyarrow.parquet as pq
import pytest

from gapo.report import read_run, write_report
from gapo.report.paired import outcomes_of
from gapo.report.run_pairs import run_pairs

STEPS = 30
RUN = ["train", "mini", "objective.name=gapo", f"train.max_steps={STEPS}", "train.per_device_train_batch_size=8"]
RUN += ["data.limit=200", "data.eval_limit=60", "train.disable_tqdm=true"]
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "300"}


HEARD = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
HEARD += "runpy.run_module('gapo', run_name='__main__', alter_sys=True)"


def start(*arguments: str, **options) -> subprocess.Popen:
    """A process that hears Ctrl-C also where the tests themselves run in the background."""
    return subprocess.Popen([sys.executable, "-c", HEARD, *arguments], env=ENVIRONMENT, **options)


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """The folder of the run, everything the watch said while it trained, and how the watch ended."""
    folder = tmp_path_factory.mktemp("watched") / "runs" / "lab"
    run = start(*RUN, f"train.output_dir={folder}", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    watch = start("watch", str(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # before it begins
    told, pages = [], []
    try:
        url = watch.stdout.readline().strip()
        while not told or told[-1]["state"] != "ended":
            told.append(json.loads(get(f"{url}status")))
            if told[-1]["step"] and len(pages) < 2:
                pages.append(get(f"{url}page").decode())
            assert run.poll() in (None, 0), run.stderr.read()
            time.sleep(0.1)
        pages.append(get(f"{url}page").decode())
        watch.send_signal(signal.SIGINT)
        words = watch.communicate(timeout=30)
        run.communicate(timeout=300)
    finally:
        for process in (run, watch):
            process.kill()
            process.wait()
    return folder, told, pages, (watch.returncode, *words)


def test_a_run_is_followed_from_its_first_step_to_its_end(watched):
    _, told, pages, _ = watched
    states = list(dict.fromkeys(status["state"] for status in told))
    assert [state for state in ("training", "ended") if state in states] == ["training", "ended"]
    assert "died" not in states
    steps = [status["step"] for status in told]
    assert steps == sorted(steps)
    assert len(set(steps)) > 2
    assert all(status["total"] == STEPS for status in told)
    assert "no result yet" in pages[0]
    assert "gapo took reward accuracy" in pages[-1] or "gapo lowered reward accuracy" in pages[-1]
    assert any("left" in status["words"] for status in told if status["state"] == "training")


def test_ctrl_c_ends_the_watch_without_a_trace(watched):
    *_, (code, _, errors) = watched
    assert code == 0
    assert "no longer watching" in errors
    assert "Traceback" not in errors


def test_the_record_of_held_out_pairs_is_what_the_result_says(watched):
    folder, *_ = watched
    run = read_run(folder)
    found = outcomes_of(run)
    assert len(found) == 60
    assert found.right("before").mean() == pytest.approx(run.evals["before"]["accuracy"], abs=1e-12)
    assert found.columns["margin_after"].mean() == pytest.approx(run.evals["after"]["margin"], abs=1e-6)


def test_the_page_of_a_real_run_has_its_pairs_with_texts_and_history(watched):
    folder, *_ = watched
    view = run_pairs(read_run(folder))
    trained = pq.read_table(folder / "pairs.parquet")
    assert set(view.ids) == set(trained["pair_id"].to_pylist())
    assert all(text is not None for text in view.texts)
    assert sum(len(history.steps) for history in view.history) == trained.num_rows
    assert view.column("self_share") is not None  # the lab's engine is a bank
    page = write_report(folder).read_text(encoding="utf-8")
    for words in ("Self share over training", "Flip rate by tier", "Weight against", "Run it again"):
        assert words in page
