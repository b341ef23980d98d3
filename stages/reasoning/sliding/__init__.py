"""Sliding puzzles: taught by exact costs near the goal and value iteration beyond, and examined by Q*."""
