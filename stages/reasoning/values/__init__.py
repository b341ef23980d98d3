"""The skill values: Q-learning, of a pole on a cart and of a way through a room."""
