"""`devmind new`: a small installable package that passes its own check, to be changed from there."""

from devmind.scaffold.create import KINDS, create

__all__ = ["KINDS", "create"]
