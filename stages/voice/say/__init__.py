"""The skill say: a word that is read is said aloud."""
