"""The skill orient: to turn to a seen, heard or moving object."""
