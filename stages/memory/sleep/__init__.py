"""The skill sleep: after a night the names are known with the store off."""
