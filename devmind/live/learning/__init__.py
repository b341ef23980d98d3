"""Learning while living: a process of its own learns from the recording, and newer weights come between ticks."""
