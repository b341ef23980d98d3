"""The command line. `main` is the console script; `app` is what tests call."""

from devmind.cli.app import app, main

__all__ = ["app", "main"]
