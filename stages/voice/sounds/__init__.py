"""The skill `sounds`: which kind of sound is heard, or that it is of no taught kind."""
