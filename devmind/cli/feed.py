"""`devmind feed`: experience from other processes and machines, in real time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.house import Terminated, group
from devmind.cli.options import JsonOption, agent_option
from devmind.cli.paths import existing, existing_files
from devmind.errors import CheckpointError, ConfigError, FeedError, nearest

if TYPE_CHECKING:
    import numpy as np

    from devmind.feed.server import FeedServer, Policy

app = group("Experience from other processes and machines: receive it, push a recording, show what arrived.")

PlaceOption = Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where a feed is served.")]
TokenOption = Annotated[Path, typer.Option("--token", metavar="FILE", help="File with the feed's token.")]
CertOption = Annotated[
    Path | None, typer.Option("--cert", metavar="FILE", help="TLS certificate (PEM); needed beyond this machine.")
]
LOOK_S, SHOWN_S = 1.0, 10.0


@app.command()
def serve(
    spool: Annotated[Path, typer.Argument(metavar="SPOOL", help="Folder of the spool; made if it is missing.")],
    at: Annotated[str, typer.Option("--at", metavar="HOST:PORT", help="Where to listen; port 0: any free one.")] = (
        "127.0.0.1:4711"
    ),
    token: Annotated[
        Path | None, typer.Option("--token", metavar="FILE", help="File with the token; else SPOOL/token, made anew.")
    ] = None,
    cert: CertOption = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="The certificate's private key (PEM).")
    ] = None,
    agent: Annotated[
        Path | None,
        agent_option("Also say how to act, by this agent; of a run's milestones, and of RUN/start, by the newest."),
    ] = None,
    ahead: Annotated[
        float | None,
        typer.Option("--ahead", min=0, metavar="MB", help="Let producers wait if a reader is this far behind."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, metavar="MB/S", help="Take at most so much a second of each producer."),
    ] = None,
) -> None:
    """Receive experience into a spool until it is stopped; what is acknowledged is on the disk.

    Lessons learn from it by 'devmind stage run ... --experience feed:SPOOL', while it grows.
    """
    if (cert is None) != (key is None):
        raise ConfigError("A certificate needs its private key: give both --cert and --key, or neither.")
    existing_files([file for file in (token, cert, key) if file], "--token, --cert, --key")
    from devmind.feed import FeedServer
    from devmind.feed.server import Limits

    _keep_freed_memory()
    limits = Limits(ahead_bytes=_bytes(ahead), rate_bytes=_bytes(rate))
    tls = (cert, key) if cert and key else None
    acting = None if agent is None else newest_actors(agent)
    server = FeedServer(spool, at, token=token, tls=tls, make_policy=acting, limits=limits)
    host = at.rpartition(":")[0]
    show.line(f"feed at {host}:{server.port}, token in {server.token_file}")
    try:
        _show_rows(server)
    except (KeyboardInterrupt, Terminated):
        show.line("stopped")
    finally:
        server.stop()


def _bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else round(megabytes * 1e6)


def _keep_freed_memory() -> None:
    """Let a batch get the memory of one before it. The C library would give each back to the system, which zeroes the
    pages of the next: a quarter of the server's processor time."""
    import ctypes

    import pyarrow as pa

    trim_threshold, mmap_threshold = -1, -3  # numbers of glibc's malloc.h
    with suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        if set_option(mmap_threshold, 32 << 20) and set_option(trim_threshold, 256 << 20):
            pa.set_memory_pool(pa.system_memory_pool())


def _show_rows(server: FeedServer) -> None:
    """Print a line whenever rows have come, at most one in ten seconds."""
    shown = server.spool.rows
    while True:
        time.sleep(SHOWN_S)
        if (rows := server.spool.rows) != shown:
            waits = server.status()["waits"]
            show.line(f"{show.count_of(rows, 'row')} on disk{f'; {waits}' if waits else ''}")
            shown = rows


def newest_actors(folder: Path) -> Callable[[tuple[str, ...]], Policy]:
    """A function that gives a policy of the agent in `folder` for the rows of one stream and the effectors it wants.

    If the folder is one of a run's milestones, the newest of them acts, from a second after it was written; if it is
    the agent with which a run began (RUN/start), the run's newest checkpoint does, in the middle of a lesson too.
    """
    import copy

    from devmind.acting import Actor
    from devmind.acting.standing import read_results, standing
    from devmind.agent.agent import Agent
    from devmind.agent.taps import Tap
    from devmind.checkpointing import generations
    from devmind.checkpointing.milestones import newest_milestone

    loaded: dict[str, Any] = {"looked_s": 0.0, "from": None, "agent": None, "checkpoint": None}

    def newest() -> Agent:
        if time.monotonic() - loaded["looked_s"] > LOOK_S:
            loaded["looked_s"] = time.monotonic()
            run = folder.parent.parent if folder.parent.name == "milestones" else None
            place = (newest_milestone(run, ()) if run else None) or folder
            mark = (place, (place / "config.json").stat().st_mtime_ns)
            if mark != loaded["from"]:
                loaded.update({"agent": Agent.from_pretrained(place).eval(), "from": mark})
                loaded["standing"] = standing(loaded["agent"], read_results(place))
            shelf = generations.on_shelf(folder.parent / "checkpoints") if folder.name == "start" else []
            if shelf and shelf[0] != loaded["checkpoint"]:
                with suppress(CheckpointError):  # it has retired meanwhile: the next look finds a newer one
                    weights = generations.load(shelf[0])["agent"]
                    agent = copy.deepcopy(loaded["agent"])  # the one before may be acting
                    agent.load_state_dict(weights)
                    loaded.update({"agent": agent, "checkpoint": shelf[0]})
        return loaded["agent"]

    newest()

    def make(effectors: tuple[str, ...]) -> Policy:
        agent = newest()
        for name in effectors:
            if name not in agent.effectors:
                raise FeedError(f"No head of this agent answers for '{name}'{nearest(name, agent.effectors)}")
        wanted = effectors or tuple(agent.effectors)
        taps = {entry["name"]: Tap.of(entry["tap"]) for entry in agent.config.heads}
        trunk = any(taps[head].on_trunk for name in wanted for head in loaded["standing"][name])
        actor = Actor(agent, effectors=wanted, trunk=trunk, standing=loaded["standing"])

        def policy(senses: Mapping[str, Any], first: np.ndarray) -> Mapping[str, np.ndarray]:
            actor.agent, actor.standing = newest(), loaded["standing"]
            if len(first) != actor.n:  # a stream that begins in the middle of episodes, as after a kill
                actor.reset(len(first))
            return actor(senses, first)

        return policy

    return make


@app.command()
def push(
    to: PlaceOption,
    sessions: Annotated[list[Path], typer.Argument(metavar="SESSION...", help="Recordings (.mcap), in order.")],
    token: TokenOption,
    cert: CertOption = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The producer's name.")] = "recordings",
    world: Annotated[
        str, typer.Option("--world", metavar="WORLD", help="The world that they are of, as lessons name it.")
    ] = "",
) -> None:
    """Push recorded sessions to a feed; ends when the last Moment is on its disk."""
    existing_files([*sessions, token, *([cert] if cert else [])], "SESSION, --token, --cert")
    from devmind.feed import Client, Row
    from devmind.moment import Action
    from devmind.sessions import replay

    with Client(to, name, token=token, tls=cert, world=world) as client:
        for session in sessions:
            for moment, action in replay(session):
                client.push([Row(0, moment, action or Action())])
        client.flush()
        show.line(client.status())


@app.command()
def status(to: PlaceOption, token: TokenOption, cert: CertOption = None, as_json: JsonOption = False) -> None:
    """Show what a feed has on its disk, by producer, and who reads it."""
    existing(token, "--token", "file")
    from devmind.feed import Connection

    found = Connection(to, token, cert).ask("status")
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [
        (name, f"{line['sequence']:,}", f"{line['rows']:,}", show.megabytes(line["bytes"]))
        for name, line in found["producers"].items()
    ]
    show.table(("producer", "batches", "rows on disk", "size"), rows)
    behind = {name: found["end"] - position for name, position in found["readers"].items()}
    for name, left in behind.items():
        show.line(f"reader '{name}': {show.megabytes(left)} behind")
    show.line(
        f"{found['rows']:,} rows on disk, lost 0; {found['doubles']:,} sent twice, {found['refusals']:,} streams "
        f"refused, {found['syncs']:,} syncs"
    )
    if found["answers"] or found["unanswered"]:
        show.line(
            f"{found['answers']:,} answers, {found['unanswered']:,} too late; p50 {found['p50_ms']:.1f} ms, p99 "
            f"{found['p99_ms']:.1f} ms"
        )
    if found["waits"]:
        show.line(f"Producers wait: {found['waits']}")
