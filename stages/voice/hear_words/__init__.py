"""The skill `hear_words`: which words were said."""
