"""Othello 6 x 6: taught by self-play, examined on the ends of games, which are solved."""
