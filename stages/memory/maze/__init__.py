"""The skill maze: the turn at a way's end that something at its start told."""
