"""The skill maze: which way to turn at the end of a corridor, by a sign at its start."""
