"""What PostgreSQL complains of, and where it is, in words for people."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors


def why(error: psycopg.Error, waited_s: float) -> str:
    """What PostgreSQL complains of, with what to do; one line without a full stop."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if isinstance(error, errors.LockNotAvailable):
        return f"another process has been writing to it for {waited_s:g} s; end that one or wait"
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return "the server takes no writes (a standby?); give the URL of its primary"
    if isinstance(error, errors.DiskFull):
        return f"the server's disk is full ({first}); free some space"
    if isinstance(error, errors.InsufficientPrivilege):
        return f"{first}; ask the owner of the database for the rights that docs/postgres.md lists"
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return f"it is damaged ({first}); restore a backup"
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return f"no connection to the server ({first}); look whether it runs"
    return first


def shown_place(given: dict[str, Any]) -> str:
    """The place for people, without password."""
    user = f"{given['user']}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{user}{given.get('host') or ''}{port}/{given.get('dbname') or ''}"
