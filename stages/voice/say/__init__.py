"""The skill `say`: saying a word aloud that is read."""
