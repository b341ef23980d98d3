"""Finding a way through a maze."""
