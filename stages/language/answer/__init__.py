"""To answer: questions about the scene in view."""
