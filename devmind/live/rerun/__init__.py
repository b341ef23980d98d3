"""A life in Rerun, one more way to look at it."""
