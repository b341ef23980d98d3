"""The skill permanence: where a thing is that is out of sight."""
