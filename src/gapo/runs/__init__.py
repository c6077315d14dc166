"""A recipe becomes a run directory."""
