"""Arranging: which thing goes where and in which order, and the hand's path, imagined together."""
