"""To trade a market on paper."""

HORIZON = 16
"""Ticks of a plan: one point and one symbol each."""
