"""Sliding puzzles: what is taught by boards near the goal and value iteration beyond, and examined by Q*."""
