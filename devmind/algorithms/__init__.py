"""Pure functions that two stages share: each takes what it needs and knows no agent, no world and no logger."""
