"""The skill recall: a thing's name, told once and long out of the window."""
