"""`gapo list`: what can be named on the command line."""

from __future__ import annotations

from gapo.cli.terminal import AsJson, Voice


def names(as_json: AsJson = False) -> None:
    """List recipes, objectives with their knobs, embedded data and models.

    Example: gapo list
    """
    from rich.table import Table

    from gapo.model.wheel import WHEEL_MODELS
    from gapo.objectives import objectives
    from gapo.pairs.judges_wheel import NAME as JUDGES
    from gapo.pairs.noise import FLIP_RULES
    from gapo.pairs.sources import embedded_names
    from gapo.runs.recipe import recipe_names
    from gapo.storage import cache_folder

    voice = Voice(as_json=as_json)
    table = Table("objective", "compares with", "knobs", box=None, pad_edge=False)
    found = {}
    for name, objective in objectives().items():
        others = [need for need in objective.needs if need != "policy"]
        knobs = "  ".join(f"{knob}={value}" for knob, value in objective.knobs.items())
        found[name] = {"compares_with": others, "knobs": dict(objective.knobs)}
        table.add_row(name, ", ".join(others).replace("_", " ") or "-", knobs)
    voice.tell(table)
    voice.tell(f"\nrecipes   {', '.join(recipe_names())}")
    voice.tell(f"data      {', '.join(embedded_names())} ; fetched once: {JUDGES} (each with :train and :test)")
    voice.tell(f"models    lab, {', '.join(WHEEL_MODELS)}, any folder or Hub id")
    voice.tell(f"noise     {', '.join(FLIP_RULES)}")
    voice.tell(f"cache     {cache_folder()} (GAPO_CACHE moves it; delete its folders to clear it)")
    voice.give(
        {
            "objectives": found,
            "recipes": list(recipe_names()),
            "data": [*embedded_names(), JUDGES],
            "models": ["lab", *WHEEL_MODELS],
            "noise": list(FLIP_RULES),
            "cache": str(cache_folder()),
        }
    )
