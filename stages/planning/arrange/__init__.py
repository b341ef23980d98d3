"""Arranging: which thing goes where and in which order, and the hand's way there, imagined together."""
