"""The command of the stage: `devmind plan`."""

from devmind.cli.house import group

plan = group("Imagine a way through a maze.")
