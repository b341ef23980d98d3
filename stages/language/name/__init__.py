"""The skill `name`: from words to a picture, and back."""
