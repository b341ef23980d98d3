"""The skill repeat_previous: the suit of the card dealt three cards ago."""
