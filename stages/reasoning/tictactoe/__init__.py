"""Tic-tac-toe: what is taught by self-play, and examined on every position there is."""
