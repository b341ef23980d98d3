"""A reader: `text.py` has pages and n-grams, `stage.py` teaches the agent to predict and to write them."""
