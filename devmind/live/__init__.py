"""The agent among people: it senses now, answers now, and is taught by showing."""
