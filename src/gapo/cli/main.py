"""The command `gapo`. Each command lives in a file of its own and loads what it needs when it runs."""

from __future__ import annotations

import os
import signal
import sys

import typer

from gapo.cli.audit import audit
from gapo.cli.bench import bench
from gapo.cli.compare import compare
from gapo.cli.doctor import doctor
from gapo.cli.eval import app as eval_app
from gapo.cli.flip import flip
from gapo.cli.generate import generate
from gapo.cli.judge import judge
from gapo.cli.launch import another_is_gone, end_with_the_launcher, say_once
from gapo.cli.leaving import leave_at_once
from gapo.cli.names import names
from gapo.cli.report import report
from gapo.cli.score import score
from gapo.cli.study import study
from gapo.cli.train import train
from gapo.cli.watch import watch
from gapo.errors import InputError, TrainingStopped, disk_trouble
from gapo.signals import heard

app = typer.Typer(
    name="gapo",
    help="Align language models on preference pairs you cannot fully trust.\n\nStart here: gapo train mini",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train)
app.command()(flip)
app.command()(audit)
app.command()(generate)
app.command()(judge)
app.command()(report)
app.command()(compare)
app.command()(watch)
app.command()(bench)
app.command()(study)
app.command()(score)
app.add_typer(eval_app, name="eval")
app.command("list")(names)
app.command()(doctor)


@app.callback(invoke_without_command=True)
def options(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from gapo import __version__

        typer.echo(f"gapo {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command. What the user can mend is one sentence and exit code 2; GAPO_DEBUG=1 shows where it arose."""
    end_with_the_launcher()
    try:
        with heard(leave_at_once, signal.SIGTERM):
            app()
    except (InputError, TrainingStopped) as error:
        if os.environ.get("GAPO_DEBUG"):
            raise
        say_once(f"gapo: {error}")
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # three libraries down: the first line, and how to see the rest
        if os.environ.get("GAPO_DEBUG"):
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        unknown = f"this did not work: {lines[0]} (GAPO_DEBUG=1 shows where)"
        say_once(f"gapo: {disk_trouble(error) or another_is_gone(error) or unknown}")
        sys.exit(2)


if __name__ == "__main__":
    main()
