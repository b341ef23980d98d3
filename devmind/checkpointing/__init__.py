"""Files that survive a kill: atomic writes, checksummed folders, state without pickle."""
