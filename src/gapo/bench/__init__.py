"""How fast a step is, beside TRL's, and what it costs in memory: measured, never estimated."""
