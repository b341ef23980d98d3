"""The skill sleep: names that are still known after a night of sleep, with the store off."""
