"""A sense of warmth: `world.py` gives it, `stage.py` teaches it."""
