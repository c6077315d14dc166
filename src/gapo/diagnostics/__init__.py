"""Measures of a model, or of the tables a run has left, that say what the weights follow."""
