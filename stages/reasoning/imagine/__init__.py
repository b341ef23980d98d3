"""The skill imagine: a search in a model that was learned from trajectories, of tic-tac-toe and of a pole on a cart."""
