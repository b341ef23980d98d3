"""To find a way through a maze."""
