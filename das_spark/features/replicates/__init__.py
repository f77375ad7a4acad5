"""Replicates: a run done again on its own output, for intervals of the counts that it publishes."""
