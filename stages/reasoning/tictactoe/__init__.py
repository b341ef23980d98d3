"""Tic-tac-toe: taught by self-play, examined on every position there is."""
