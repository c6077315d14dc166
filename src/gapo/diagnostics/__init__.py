"""Measures of a model, or of the tables a run leaves."""
