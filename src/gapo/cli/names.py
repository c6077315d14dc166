"""`gapo list`: what can be named on the command line."""

from __future__ import annotations


def names() -> None:
    """List recipes, objectives with their knobs, embedded data and models.

    Example: gapo list
    """
    from rich.console import Console
    from rich.table import Table

    from gapo.model.wheel import WHEEL_MODELS
    from gapo.objectives import objectives
    from gapo.pairs.judges_wheel import NAME as JUDGES
    from gapo.pairs.noise import FLIP_RULES
    from gapo.pairs.sources import embedded_names
    from gapo.runs.recipe import recipe_names
    from gapo.storage import cache_folder

    console = Console()
    table = Table("objective", "compares with", "knobs", box=None, pad_edge=False)
    for name, objective in objectives().items():
        others = [need for need in objective.needs if need != "policy"]
        knobs = "  ".join(f"{knob}={value}" for knob, value in objective.knobs.items())
        table.add_row(name, ", ".join(others).replace("_", " ") or "-", knobs)
    console.print(table)
    console.print(f"\nrecipes   {', '.join(recipe_names())}")
    console.print(f"data      {', '.join(embedded_names())} ; fetched once: {JUDGES} (each with :train and :test)")
    console.print(f"models    lab, {', '.join(WHEEL_MODELS)}, any folder or Hub id")
    console.print(f"noise     {', '.join(FLIP_RULES)}")
    console.print(f"cache     {cache_folder()} (GAPO_CACHE moves it; delete its folders to clear it)")
