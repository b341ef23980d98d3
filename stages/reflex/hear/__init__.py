"""The skill hear: what kind of sound it is, and spoken digits."""
