"""Grammar: what may be said, from what may not."""
