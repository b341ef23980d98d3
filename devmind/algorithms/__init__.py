"""Pure functions that two stages share: each knows only its arguments, no agent, no world and no logger."""
