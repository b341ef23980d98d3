"""Puzzles: what is taught by scrambles that prove what presses cost, and examined by Q*."""
