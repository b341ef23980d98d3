"""The skill `answer`: questions about the scene in view."""
