"""To read: the next character of a text."""

NOTHING = "There is nothing to go on with; give the beginning of a text, such as 'look, a red'."
"""Why no text is gone on with, said before anything is loaded too."""
