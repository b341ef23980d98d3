"""Learning while living: a separate process learns from the recording, and newer weights arrive between ticks."""
