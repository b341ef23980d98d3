"""Criticising: whether a plan is sound, and if not, where it fails and why."""
