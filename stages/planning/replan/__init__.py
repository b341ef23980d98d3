"""Replanning: to notice that the world contradicts a plan, and to look for another way."""
