"""`gapo doctor`: is everything here, and what is missing."""

from __future__ import annotations

import typer

from gapo.cli.terminal import AsJson, Voice

EXTRAS = {
    "trl": "parity tests: pip install 'gapo[test]'",
    "bitsandbytes": "4-bit weights under adapters: pip install 'gapo[qlora]'",
}


def doctor(as_json: AsJson = False) -> None:
    """Print versions, devices, threads, memory, cache, and what is missing.

    Example: gapo doctor
    """
    import importlib.util
    import os
    import platform

    from gapo.model.wheel import WHEEL_MODELS
    from gapo.runs.environment import device_name, package_versions
    from gapo.storage import cache_folder

    voice = Voice(as_json=as_json)
    versions = package_versions()
    voice.tell(f"python    {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name, version in versions.items():
        voice.tell(f"{name:<13} {version or 'MISSING'}")
    missing = [name for name, version in versions.items() if version is None]
    if "torch" not in missing:
        import torch

        voice.tell(f"device    {device_name()}, {torch.cuda.device_count()} GPUs")
        voice.tell(f"threads   {torch.get_num_threads()} of {os.cpu_count()} cores")
    voice.tell(f"memory    {_memory()}")
    cache = cache_folder()
    files = [path for path in cache.rglob("*") if path.is_file()] if cache.is_dir() else []
    voice.tell(f"cache     {cache}, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB in {len(files)} files")
    for name, known in WHEEL_MODELS.items():
        there = cache_folder("models", f"{name}-{known.sha256[:12]}").is_dir()
        voice.tell(f"model     {name}: {'in the cache' if there else 'not fetched yet (gapo train quickstart does)'}")
    for name, purpose in EXTRAS.items():
        if importlib.util.find_spec(name) is None:
            voice.tell(f"optional  {name} is not installed ({purpose})")
    optional = {name: importlib.util.find_spec(name) is not None for name in EXTRAS}
    voice.give({"versions": versions, "missing": missing, "optional": optional, "cache": str(cache)})
    if missing:
        voice.tell(f"missing   {', '.join(missing)}: pip install gapo")
        raise typer.Exit(1)
    voice.tell("all that is needed is here")


def _memory() -> str:
    """Free and total memory, where the system tells."""
    import os

    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
    except (ValueError, AttributeError, OSError):
        return "unknown"
    return f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
