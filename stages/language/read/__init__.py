"""To read: the next character of a text."""
