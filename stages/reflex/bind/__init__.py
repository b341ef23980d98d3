"""The skill bind: which of four visible objects made a sound."""
