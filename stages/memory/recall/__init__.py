"""The skill recall: the name of a thing, told once and no longer in the window of attention."""
