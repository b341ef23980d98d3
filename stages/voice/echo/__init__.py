"""The skill echo: to repeat what was heard, by the codec alone."""
