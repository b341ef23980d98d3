"""Where a page may be served: hosts that keep it on this machine or under TLS, and free ports."""

from __future__ import annotations

import ipaddress
import socket

from devmind.errors import ConfigError

ANYWHERE = ("0.0.0.0", "::", "[::]", "")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(host: str, has_tls: bool) -> None:
    """Raise ConfigError unless a page may be served on `host`."""
    if host in ANYWHERE:
        raise ConfigError(
            f"page.host is the one name or address under which the page is opened, not '{host}'; give this machine's. "
            f"In a container, --set page.bind={host or '0.0.0.0'} listens for a published port."
        )
    if not has_tls and not is_loopback(host):
        raise ConfigError(
            f"On '{host}' without TLS the whole network could look on, and browsers give such a page no camera: give a "
            "certificate and its key as well, or leave page.host out and reach this machine by `ssh -L`."
        )


def check_bind(bind: str, port: int) -> None:
    """Raise ConfigError unless a page may listen on the address `bind`, on a port that somebody else names too."""
    try:
        ipaddress.ip_address(bind.strip("[]"))
    except ValueError:
        raise ConfigError(
            f"page.bind is an address to listen on, such as 0.0.0.0 in a container; got '{bind}'. The name under which "
            "the page is opened is page.host."
        ) from None
    if not port and not is_loopback(bind):
        raise ConfigError(
            f"page.bind {bind} needs page.port too (--set page.port=N), the port that the container publishes."
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; ConfigError when the host is unknown or the port is taken."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"The host '{host}' is not known here: {error}.") from None
    listener = socket.socket(family, kind)
    try:
        # Allows a restart during the minute in which the system remembers the old connections.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Nothing can listen on port {port} of '{host}': {error.strerror}. Leave the port out to take a free one."
        ) from None
    return listener
