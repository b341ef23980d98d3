"""The feed: experience from other processes and machines, in real time (Arrow Flight; extra `feed`).

A simulator pushes (Moment, Action) with a `Client`; `devmind feed serve` stores it in a spool, and acknowledges what is
synced; lessons read the spool while it grows (`--experience feed:FOLDER`). It asks how to act with `Acting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devmind.feed.client import Acting, Client, Connection, Pushing
    from devmind.feed.schema import Row
    from devmind.feed.server import FeedServer

__all__ = ["Acting", "Client", "Connection", "FeedServer", "Pushing", "Row"]
_PLACES = {"Row": "schema", "FeedServer": "server"}


def __getattr__(name: str) -> Any:
    """Load a public name on request; a sentence says how to install pyarrow."""
    if name not in __all__:
        raise AttributeError(name)
    from importlib import import_module

    from devmind.errors import FeedError

    try:
        return getattr(import_module(f"devmind.feed.{_PLACES.get(name, 'client')}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise FeedError("A feed needs Arrow: pip install 'devmind[feed]'.") from error
