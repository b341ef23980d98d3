"""The skill procedures: plans written by people, run on the agent's beliefs and chosen by its learned utilities."""
