"""To trade a market on paper."""
