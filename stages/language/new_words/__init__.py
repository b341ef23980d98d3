"""The skill `new_words`: words that were taught once, with one look."""
