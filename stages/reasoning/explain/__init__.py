"""The skill explain: the line of play that a search hopes for or fears, in writing."""
