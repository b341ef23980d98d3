"""The skill name_heard: which of four pictures a spoken name is of."""
