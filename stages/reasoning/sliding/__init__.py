"""Sliding puzzles: what is taught by value iteration from mixed boards, and examined by Q*."""
