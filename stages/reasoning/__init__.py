"""The stage reasoning: searching before acting; see `stage.py`."""
