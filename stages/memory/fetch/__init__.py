"""The skill fetch: to reach for a thing that was seen earlier and is hidden now."""
