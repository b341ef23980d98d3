"""A sense of warmth: `world.py` has it, `stage.py` teaches it."""
