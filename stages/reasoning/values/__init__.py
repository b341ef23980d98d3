"""The skill values: Q-learning of a pole on a cart and of a path through a room."""
