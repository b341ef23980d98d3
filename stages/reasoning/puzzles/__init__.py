"""Lights Out: taught by scrambles that prove bounds on the cost of presses, and examined by Q*."""
