"""The skill `follow`: carrying out instructions."""
