"""Noughts and crosses: `game.py` has the rules, `stage.py` learns it by searching."""
