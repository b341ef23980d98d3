"""Demonstrations as sessions: the views, instructions and actions of the bot.

    python -m stages.language.follow.demos BabyAI-GoToLocal-v0 --episodes 4

records episodes of BabyAI's bot, which sees the whole room; rooms in which it fails are left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from devmind.errors import ConfigError, WorldError
from devmind.moment import TICK_HZ, Action, Moment
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.sessions.recorder import Recorder
from stages.language.follow.rooms import Demonstration, demonstrate, room_of_bot
from stages.language.parts import BOARD, CHOOSE, TEXT

MOST_FAILED = 20
"""After so many failures in a row recording stops: the bot does not know the room."""
TOO_LATE = f"Seeds from {EXAM_SEEDS_FROM:,} on are for exams; begin with a smaller --seed."


@dataclass(frozen=True)
class Share:
    """The result of one process: its session, episodes and ticks, and the rooms in which the bot failed."""

    session: Path
    made: int
    ticks: int
    failed: int


def make(room: str, episodes: int, folder: Path, jobs: int = 1, seed: int = 0) -> list[Share]:
    """Record `episodes` episodes of the bot in `room`, with seeds from `seed` on and a session for each process.

    Seeds stay below those of exams. If the bot fails in a room, the next seed is taken. A session without an episode is
    deleted.

    Raises:
        ConfigError: `folder` is a file.
        WorldError: there is no such room of BabyAI's, the bot does not work in it, or there are too few rooms.
        SessionError: a session is there already, or cannot be written.
    """
    room_of_bot(room)  # errors come before any file
    if seed + episodes > EXAM_SEEDS_FROM:
        raise WorldError(TOO_LATE)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out expects a folder, and '{folder}' is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    shares = [(room, len(range(job, episodes, jobs)), folder / f"{room}-{job}.mcap", seed + job, jobs)
              for job in range(min(jobs, episodes))]  # fmt: skip
    if len(shares) == 1:
        return [_record(*shares[0])]
    # A forked process would share torch's threads and the parent's random numbers.
    with ProcessPoolExecutor(len(shares), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(_record, *zip(*shares, strict=True)))


def _record(room: str, episodes: int, session: Path, seed: int, step: int) -> Share:
    """Record one process's share: rooms of the seeds `seed`, `seed` + `step`, ..."""
    made, failed, in_a_row = 0, 0, 0
    recorder = Recorder(session, source=room, details={"teacher": "BabyAIBot", "first seed": seed})
    try:
        with recorder:
            while made < episodes:
                if seed >= EXAM_SEEDS_FROM:
                    raise WorldError(TOO_LATE)
                demo, seed = demonstrate(room, seed), seed + step
                if demo is None:
                    failed, in_a_row = failed + 1, in_a_row + 1
                    if in_a_row == MOST_FAILED:
                        raise WorldError(f"BabyAI's bot failed in {MOST_FAILED} rooms of '{room}' one after another.")
                    continue
                write(recorder, demo)
                made, in_a_row = made + 1, 0
            return Share(session, made, recorder.ticks, failed)
    finally:
        if not made:
            session.unlink(missing_ok=True)


def write(recorder: Recorder, demo: Demonstration) -> None:
    """Append one episode: a tick for each step, and the last one, to which its end led."""
    ticks = len(demo.done)
    for tick in range(ticks + 1):
        last = tick == ticks
        senses = {BOARD: demo.board[tick], **({TEXT: demo.instruction} if tick == 0 else {})}
        moment = Moment(
            (recorder.ticks + 1) / TICK_HZ, senses, demo.reward if last else 0.0, tick == 0, last, terminal=last
        )
        recorder.write(moment, None if last else Action({CHOOSE: np.asarray(demo.done[tick])}))


def main() -> None:
    """Record as the command line says, and print what came of it."""
    from devmind.cli import show
    from devmind.cli.house import exit_codes

    parser = argparse.ArgumentParser(description="Record episodes of BabyAI's bot as sessions.")
    parser.add_argument("room", help="a room of BabyAI, such as BabyAI-GoToRedBallGrey-v0")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1, help="processes; each writes one session")
    parser.add_argument("--out", type=Path, default=Path("demos"), help="folder of the sessions")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first room")
    given = parser.parse_args()
    with exit_codes():
        shares = make(given.room, given.episodes, given.out, given.jobs, given.seed)
    for share in shares:
        show.path("session", share.session)
    made, ticks, failed = (sum(getattr(share, name) for share in shares) for name in ("made", "ticks", "failed"))
    show.line(
        f"{show.count_of(made, 'episode')}, {show.count_of(ticks, 'tick')}; the bot failed in {failed} further rooms"
    )


if __name__ == "__main__":
    main()
