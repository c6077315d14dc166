"""Mutate modules, run their tests on every mutant, and write the share that was noticed to results/mutation.

PYTHONPATH=tests python -m mutation.run                    every module
PYTHONPATH=tests python -m mutation.run pairs.noise        some of them; the others' rows stay
PYTHONPATH=tests python -m mutation.run --survivors        only what survived or was not tried before
"""

from __future__ import annotations

import argparse
import random
import signal
import sys

from mutation import report
from mutation.targets import TESTS, files_for, source_of
from mutation.trials import SURVIVED, Outcome, baseline, trial, warm_up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(TESTS)}")
    parser.add_argument("--survivors", action="store_true", help="only what survived or was not tried before")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N mutants of each module")
    asked = parser.parse_args()
    if unknown := set(asked.modules) - set(TESTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no trial outlives this process
    before = report.read()
    warm_up()
    chosen = [module for module in TESTS if module in asked.modules or not asked.modules]
    known = baseline({module: files_for(module) for module in chosen})
    for module in chosen:
        rows = []
        made = list(report.keyed(module, source_of(module).read_text()))
        drawn = random.Random(0).sample(range(len(made)), min(asked.sample or len(made), len(made)))
        for place, (key, mutant) in enumerate(made):
            last = before.get(key) if asked.survivors else None
            if last is not None and last.verdict != SURVIVED:
                outcome = Outcome(last.verdict, last.by)
            elif last is not None or place in drawn:
                tests = known.tests_for(module, mutant)
                outcome = trial(module, mutant, tests, 10 + 3 * sum(known.seconds[test] for test in tests))
            else:
                continue
            rows.append(report.Row(*key, line=mutant.line, kind=mutant.kind, verdict=outcome.verdict, by=outcome.by))
        before = {key: row for key, row in before.items() if row.module != module} | {row.key: row for row in rows}
        report.write(before)
        survived = [row for row in rows if row.verdict == SURVIVED]
        print(f"{module}: {len(rows) - len(survived)} of {len(rows)} killed", file=sys.stderr, flush=True)
        for row in survived:
            print(f"    {row.line}: {row.change}    in    {row.code}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
