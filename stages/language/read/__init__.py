"""The skill `read`: the next character of a text."""

NOTHING = "There is nothing to go on with; give the beginning of a text, such as 'look, a red'."
"""The refusal of an empty text; the command gives it before anything is loaded."""
