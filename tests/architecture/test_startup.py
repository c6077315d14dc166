"""`import gapo` and `gapo --help` must not load torch."""

import os
import subprocess
import sys

HEAVY = {"torch", "transformers", "datasets", "pyarrow", "matplotlib", "scipy", "numpy"}


def loaded_after(code: str) -> set[str]:
    probe = f"import sys\n{code}\nprint(*sorted(name for name in sys.modules if '.' not in name))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True)
    return set(result.stdout.split()) & HEAVY


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded_after("import gapo")


def test_the_command_line_loads_nothing_heavy():
    assert not loaded_after("import gapo.cli.main")


def test_flipping_labels_needs_no_torch():
    code = "import gapo\ngapo.flip([{'prompt': 'p', 'chosen': 'a', 'rejected': 'b'}], 1.0)"
    assert "torch" not in loaded_after(code)
