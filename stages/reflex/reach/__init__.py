"""The skill reach: to touch the object of the named colour."""
