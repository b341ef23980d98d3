"""The skill hear_words: what was said, as words."""
