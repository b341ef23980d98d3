"""Files that survive a killed process: atomic writes, checksummed folders, and state without pickle."""
