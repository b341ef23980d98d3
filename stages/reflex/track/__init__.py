"""The skill track: to keep a moving object in view."""
