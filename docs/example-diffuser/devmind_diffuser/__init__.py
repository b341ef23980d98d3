"""Plans by diffusion: `world.py` has a pond to walk around, `head.py` draws 16 steps at once, `stage.py` teaches it."""
