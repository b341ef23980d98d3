"""Memory while living: names taught by showing, what this Moment reminds of, and what is worth keeping."""
