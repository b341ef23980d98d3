"""The stage language: to read, to name, to follow what is said."""
