"""The skill speak_answer: a spoken question about what is in view is answered aloud."""
