"""Words that were taught once, by one look."""
