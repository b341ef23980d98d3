"""Handling things of the nursery: to push, to grasp and lift, to put into a box, by plans that are imagined."""
