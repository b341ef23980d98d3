"""The skill imagine: search in a model learned from trajectories, of tic-tac-toe and of a pole on a cart."""
