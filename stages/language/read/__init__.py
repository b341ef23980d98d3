"""The skill `read`: the next character of a text."""

NOTHING = "There is no text to continue; give the beginning of one, such as 'look, a red'."
"""The refusal of an empty text; the command gives it before anything is loaded."""
