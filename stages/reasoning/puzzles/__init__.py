"""Puzzles: what is taught by value iteration from scrambles, and examined by Q*."""
