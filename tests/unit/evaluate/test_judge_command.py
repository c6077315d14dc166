"""`gapo judge` as a process: it asks before it spends, survives a kill, and shows the key to nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gapo.evaluate.cost import Cost, cost_of, tokens_in
from gapo.evaluate.endpoint import Endpoint
from gapo.evaluate.judge import AlpacaJudge, ArenaJudge, games_of
from gapo.evaluate.verdicts import read_judging
from judged import answers, bench, files, shown, three_labels
from loopback import Says, Server, completion

KEY = "sk-secret-of-the-test-5b0d77"


class Command:
    """`gapo judge` on eight prompts in a folder of its own."""

    def __init__(self, folder: Path, size: int = 8) -> None:
        self.folder = folder
        self.prompts, self.ours, self.theirs = files(folder, size)
        self.out = folder / "judged"
        kept = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        self.environment = {
            **kept,
            "GAPO_CACHE": str(folder / "cache"),
            "MY_KEY": KEY,
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def line(self, url: str, *more: str) -> list[str]:
        paths = [str(self.ours), "--against", str(self.theirs), "--bench", str(self.prompts), "--out", str(self.out)]
        judge = ["--base-url", url, "--model", "judge-1", "--key-variable", "MY_KEY"]
        return [sys.executable, "-m", "gapo", "judge", *paths, *judge, *more]

    def run(self, url: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.line(url, *more),
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


def test_it_says_what_it_costs_and_spends_nothing_unasked(command):
    with Server(three_labels) as server:
        refused = command.run(server.url, "--price-in", "10", "--price-out", "30")
        assert (refused.returncode, refused.stdout, len(server.asked)) == (2, "", 0)
        assert "judge-1 gets 16 requests" in refused.stderr
        assert "about $" in refused.stderr
        assert "add --yes" in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
        done = command.run(server.url, "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert len(server.asked) == 16
        summary = json.loads(done.stdout)
        again = command.run(server.url)  # nothing is left to pay: no question asked
        assert (again.returncode, len(server.asked)) == (0, 16)
    assert (summary["games"], summary["counts"]) == (16, {"ok": 16})
    assert set(server.keys) == {f"Bearer {KEY}"}
    judging = read_judging(command.out)
    assert (judging.model, judging.reference, judging.judge) == ("ours", "theirs", "judge-1")
    assert [each.preference for each in judging.verdicts] == [1.0, 1.0, 0.0, 0.0] * 4


def hear_interrupts():
    """A shell's background jobs, and so their children, do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_run_goes_on_without_asking_again(command, how):
    """Stopped while two requests hang: what was answered before is never asked for again."""
    hanging, free = threading.Event(), threading.Event()

    def answer(body, number):
        if number >= 6:
            if number == 7:
                hanging.set()
            free.wait(20)
        return three_labels(body)

    with Server(answer) as server:
        line = command.line(server.url, "--yes", "--concurrency", "2")
        running = subprocess.Popen(
            line,
            env=command.environment,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,  # noqa: PLW1509 - it takes no lock
        )
        assert hanging.wait(60)
        running.send_signal(how)
        said = running.communicate(timeout=20)[1]
        free.set()
        before = [shown(body) for body in server.asked[:6]]
    if how != signal.SIGKILL:
        assert running.returncode == 128 + how
        assert "interrupted; 6 of 16 games are decided and kept" in said
    else:
        assert running.returncode == -signal.SIGKILL
    with Server(three_labels) as server:
        done = command.run(server.url, "--yes")
        after = [shown(body) for body in server.asked]
    assert done.returncode == 0, done.stderr
    assert "6 of 16 games are decided" in done.stderr
    assert len(after) == 10
    assert not set(before) & set(after)
    assert read_judging(command.out).counts == {"ok": 16}


@pytest.mark.parametrize(("said", "code", "asked"), [(b"n\n", 1, 0), (b"y\n", 0, 16)])
def test_on_a_terminal_it_asks(command, said, code, asked):
    ours, theirs = os.openpty()
    os.write(ours, said)
    with Server(three_labels) as server:
        done = subprocess.run(
            command.line(server.url), env=command.environment, capture_output=True, text=True, stdin=theirs, check=False
        )
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, len(server.asked)) == (code, asked)
    assert "Go on?" in done.stderr


def test_the_key_is_in_no_file_and_no_output(command):
    """The server repeats the key in every error and every verdict; it reaches neither the disk nor the terminal."""

    def indiscreet(body, number):
        if number == 3:
            return Says({"error": {"message": f"busy, {KEY}"}}, 500, {"Retry-After": "0"})
        if shown(body)[0] == 5:
            return Says({"error": {"message": f"too long for {KEY}"}}, 400)
        if shown(body)[0] == 6:
            return Says(completion(f"I was called with {KEY}", model=KEY))
        return three_labels(body)

    with Server(indiscreet) as server:
        done = command.run(server.url, "--yes", "--json")
        last = command.run(server.url, "--yes", "--again")
    with Server(lambda body, number: Says({"error": {"message": f"no: {KEY}"}}, 401)) as server:
        failed = command.run(server.url, "--yes", "--temperature", "1", "--retries", "0")
    assert (done.returncode, last.returncode, failed.returncode) == (0, 0, 2)
    assert "no: [key]" in failed.stderr
    printed = "".join(each.stdout + each.stderr for each in (done, last, failed))
    written = [path for path in command.folder.rglob("*") if path.is_file()]
    assert len(written) >= 6
    assert KEY not in printed
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    texts = [each.text for each in read_judging(command.out).verdicts]
    assert [text for text in texts if "called with [key]" in text]


def test_unreadable_verdicts_and_another_model_are_shown(command):
    def answer(body, number):
        replies = {0: "", 1: "who knows", 2: "cut off he"}
        question = shown(body)[0]
        if question not in replies:
            return three_labels(body)
        return Says(completion(replies[question], finish="length" if question == 2 else "stop", model="other-2"))

    with Server(answer) as server:
        done = command.run(server.url, "--yes")
    assert done.returncode == 0, done.stderr
    assert "ours against theirs, 16 games by judge-1: 10 ok, 2 truncated, 2 empty, 2 malformed" in done.stdout
    assert "the server says it is judge-1, other-2, asked for was judge-1" in done.stdout
    assert f"gapo score {command.out}" in done.stdout


def test_a_judge_that_is_offline_is_one_sentence(command):
    with Server(lambda body, number: three_labels(body) if number < 5 else Says({}, 503)) as server:
        stopped = command.run(server.url, "--yes", "--retries", "0", "--concurrency", "1")
    assert stopped.returncode == 2
    assert "5 of 16 games are decided and kept, 11 are left: the same command goes on with them" in stopped.stderr
    gone = command.run(server.url, "--yes")
    assert gone.returncode == 2
    assert "cannot be reached" in gone.stderr
    assert "Traceback" not in gone.stderr + stopped.stderr


def test_the_estimate_is_of_what_is_left_and_by_the_prices_given():
    questions = bench(10)
    games = games_of(questions, answers(questions), answers(questions, "theirs"), ArenaJudge(Endpoint("http://x", "j")))
    judge = ArenaJudge(Endpoint("http://x", "j"))
    cost = cost_of(games[:5], judge, 10.0, 30.0)
    sizes = [sum(tokens_in(m["content"]) for m in judge.messages(g.question, g.ours, g.theirs, False)) for g in games]
    assert (cost.requests, cost.tokens_in) == (5, sum(sizes[:5]))
    assert cost.usual == pytest.approx(cost.tokens_in * 10e-6 + 5 * 700 * 30e-6)
    assert cost.most == pytest.approx(cost.tokens_in * 10e-6 + 5 * 4096 * 30e-6)
    assert cost_of(games, judge).usual is None
    assert "price unknown" in cost_of(games, judge).words


def test_a_known_judge_has_a_dated_price():
    judge = AlpacaJudge(Endpoint("http://x", "gpt-4-1106-preview"))
    questions = bench(3)
    cost = cost_of(games_of(questions, answers(questions), answers(questions, "theirs"), judge), judge)
    assert (cost.price_in, cost.price_out, cost.out_most) == (10.0, 30.0, 3)
    assert "prices of June 2025" in cost.words
    assert isinstance(cost, Cost)


def test_tokens_are_not_underestimated_in_other_scripts():
    assert tokens_in("a" * 400) == 104
    assert tokens_in("語" * 400) == 404
