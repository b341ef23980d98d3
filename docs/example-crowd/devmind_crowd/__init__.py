"""A crowd: `stage.py` trains 200 small readers of digits at once, and the best one becomes the agent's head."""
