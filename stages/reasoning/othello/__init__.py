"""Othello 6 x 6: what is taught by self-play, and examined on the ends of games, which are solved."""
