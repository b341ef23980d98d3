"""The skill `echo`: repeating what was heard, by the codec alone."""
