"""The lesson `senses`: many senses in one step."""
