"""The second stage: remember what is not perceived any more, for seconds in the trunk and permanently in the store."""
