"""Many senses at once."""
