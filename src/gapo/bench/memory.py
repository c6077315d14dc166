"""Peak resident memory of a variant: a process of its own, the warm-up and one whole step.

`python -m gapo.bench.memory '{"variant": "simpo", ...}'` prints one line of JSON.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gapo.bench.setting import Setting
from gapo.errors import InputError

STATUS = Path("/proc/self/status")


def measured_memory(variant: str, setting: Setting) -> dict[str, int]:
    """Bytes at the peak, and before the trainer was built (libraries, model and pairs)."""
    asked = json.dumps({"variant": variant, **asdict(setting)})
    done = subprocess.run(
        [sys.executable, "-m", "gapo.bench.memory", asked], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InputError(f"the memory of {variant} could not be measured ({reason})")
    return parsed(done.stdout)


def parsed(output: str) -> dict[str, int]:
    """The report is the last line; libraries may have spoken before it."""
    try:
        report = json.loads(output.strip().splitlines()[-1])
        return {key: int(report[key]) for key in ("peak_bytes", "start_bytes")}
    except (IndexError, KeyError, TypeError, ValueError):
        raise InputError("the process that measures memory gave no report") from None


def peak_bytes() -> int:
    """The most this process ever held.

    From /proc where there is one: ru_maxrss survives exec, so a child of a large process would report its parent's.
    """
    if STATUS.is_file() and (found := re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())):
        return int(found.group(1)) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(arguments: Sequence[str]) -> None:
    import transformers

    from gapo.bench.setting import workload
    from gapo.bench.stepping import Stepper
    from gapo.bench.variants import all_variants

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    asked = json.loads(arguments[0])
    variant, setting = all_variants()[asked.pop("variant")], Setting(**asked)
    work = workload(setting)
    start = peak_bytes()
    with tempfile.TemporaryDirectory(prefix="gapo-bench-") as folder:
        stepper = Stepper(variant.build(work, setting, Path(folder), None))
        stepper.step(1)
        stepper.step()
    print(json.dumps({"peak_bytes": peak_bytes(), "start_bytes": start}))


if __name__ == "__main__":
    main(sys.argv[1:])
