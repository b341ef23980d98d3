"""The stage reasoning: the agent searches before it acts; see `stage.py`."""
