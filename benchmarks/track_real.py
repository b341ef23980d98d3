"""Does the fovea follow a thing in real video? Nursery objects, pasted with their masks on clips, in the live room.

An object of the nursery's level `track` starts near the gaze, as in that level, and swings over most of the frame, at
up to 23 of the nursery's degrees a second. It is rendered in the wide view of 120 degrees and pasted on frames of
640x480 at 10 Hz. Each frame is processed as in `devmind live`: Room, Fovea, Moment, `agent.encode`, `agent.step`,
`Fovea.turn`. With `--anywhere` it starts anywhere in the frame, so that it must first be found.

A frame counts when the fovea's centre is within 10 degrees of the object's, taking the frame's width as 60 degrees: 98
pixels, and 28 of the nursery's degrees, since there the same frame is 120 degrees wide. Half of the fovea's side is 107
pixels, so a frame counts when the object is well inside it. The first second, in which the gaze settles, is left out.
Clips shorter than a run are played to and fro.

The column `walls` has the nursery's own walls behind the object instead of a clip: the difference to the clips is the
effect of real pictures. With `--still` each run has one frame of its clip as background: the gain is the effect of the
movement of camera and world.

Beside the agent stand a rule by optical flow (Kroeger et al. 2016, DIS), which turns to the largest region that moves
unlike the camera (an affine fit, RANSAC); turning to the oddest colour in the fovea; never moving; and moving at
random. Every player meets the same runs. Intervals are Wilson's with as many trials as runs, since frames of one run
are not independent.

    OMP_NUM_THREADS=1 python benchmarks/track_real.py --agent checkpoints/.../milestones/01-reflex --data DIR/video
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from devmind.acting.standing import read_results, standing
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.curriculum.exam import wilson
from devmind.errors import StaleReading
from devmind.moment import TICK_HZ, Moment
from devmind.seeding import EXAM_SEEDS_FROM, numpy_rng
from devmind.sessions.pictures import video_ticks
from devmind.worlds.fovea import MAX_TURN_DEG, WIDE_HALF, Fovea
from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.dynamics import path_point
from devmind.worlds.nursery.levels import LEVELS
from devmind.worlds.nursery.state import NurseryState
from devmind.worlds.nursery.views import WIDE_FOV_DEG, draw, scene
from devmind.worlds.room import LAG_S, Room

WIDTH, HEIGHT = 640, 480
JUDGED_HALF = math.tan(math.radians(30.0))
JUDGED_DEG = 10.0
SETTLE_TICKS = TICK_HZ
GOAL = 0.85
WALLS = "walls"
NEAR = 0.25
"""Phase, in radians, within which a swing begins: up to 11 of the nursery's degrees from straight ahead."""
LARGEST_SEED_SHARE = 50
"""Seeds tried for each run: paths that leave the frame are passed over."""


def frames_of(path: Path) -> list[np.ndarray]:
    """The clip at 10 Hz, each frame enlarged to cover 640x480 and cropped around its middle."""
    found = []
    for _, frame in video_ticks(path, TICK_HZ, lambda text: print(text, file=sys.stderr)):
        scale = max(WIDTH / frame.shape[1], HEIGHT / frame.shape[0])
        size = (max(WIDTH, round(frame.shape[1] * scale)), max(HEIGHT, round(frame.shape[0] * scale)))
        large = cv2.resize(frame, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        left, top = (size[0] - WIDTH) // 2, (size[1] - HEIGHT) // 2
        found.append(large[top : top + HEIGHT, left : left + WIDTH])
    return found


@dataclass
class Run:
    """Frames uint8 [480, 640, 3] and the object's middle in each, pixels [T, 2] (x, y)."""

    frames: list[np.ndarray]
    middles: np.ndarray


def objects(runs: int, ticks: int, first_seed: int, anywhere: bool) -> Iterator[tuple[NurseryState, np.ndarray]]:
    """Initial states (one child) and paths [T, 1, O, 3] of objects that stay in the frame."""
    per_slope = WIDTH / 2 / WIDE_HALF
    found = 0
    for seed in range(first_seed, first_seed + LARGEST_SEED_SHARE * runs):
        state = LEVELS["track"].spawn(np.array([seed]))
        swing_widely(state, anywhere)
        path = np.stack([path_point(state.path, np.array([tick])) for tick in range(ticks)])
        ahead, left, up = path[:, 0, 0].T
        if ahead.min() <= state.size[0, 0]:
            continue
        reach = per_slope * state.size[0, 0] / ahead
        aside, above = per_slope * np.abs(left / ahead) + reach, per_slope * np.abs(up / ahead) + reach
        if (aside < WIDTH / 2).all() and (above < HEIGHT / 2).all():
            found += 1
            yield state, path
        if found == runs:
            return


def swing_widely(state: NurseryState, anywhere: bool) -> None:
    """Let the object swing around straight ahead (columns as in `path_point`); its distance is unchanged."""
    path, distance_m = np.zeros((1, 12)), state.path[0, 0, 11]
    for first, name, amplitudes, top_deg_s in ((1, "pan", (33.0, 46.0), 22.0), (8, "tilt", (8.0, 24.0), 7.0)):
        path[:, first] = uniform(state.seed, f"{name} swing", *amplitudes)
        path[:, first + 1] = top_deg_s * uniform(state.seed, f"{name} speed", 0.6, 1.0) / path[:, first]
        path[:, first + 2] = uniform(state.seed, f"{name} phase", -1.0, 1.0) * (np.pi if anywhere else NEAR)
        path[:, first + 2] += np.pi * (uniform(state.seed, f"{name} way") < 0.5)
    path[:, 11] = distance_m
    state.path[:, 0] = path


def composite(clip: list[np.ndarray] | None, state: NurseryState, path: np.ndarray, start: int, still: bool) -> Run:
    """The object pasted on the clip, which plays to and fro from `start` or stands; on the walls without a clip."""
    around = [0] if clip is None else [*range(len(clip)), *range(len(clip) - 2, 0, -1)]
    level, cut = np.zeros(1), (WIDTH - HEIGHT) // 2
    frames, middles = [], []
    for tick, position in enumerate(path):
        rgb, _, mask = draw(state, scene(state, position), level, level, WIDE_FOV_DEG, WIDTH)
        picture, here = rgb[0, cut : cut + HEIGHT], mask[0, cut : cut + HEIGHT] == 1
        rows, columns = np.nonzero(here)
        behind = picture if clip is None else clip[around[(start + (0 if still else tick)) % len(around)]]
        frames.append(np.where(here[..., None], picture, behind))
        middles.append((columns.mean() + 0.5, rows.mean() + 0.5))
    return Run(frames, np.array(middles))


class Film:
    """A camera that gives one frame at each tick of a clock that only `sleep` moves."""

    sense = "sight"

    def __init__(self, frames: list[np.ndarray]) -> None:
        self.frames, self.now_s = frames, 0.0

    def now(self) -> float:
        """Seconds."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The frame of the last tick; the first tick is at 0.1 s."""
        tick = int(self.now_s * TICK_HZ + 1e-6)
        if tick < 1:
            raise StaleReading("The film begins at 0.1 s.")
        return self.frames[min(tick, len(self.frames)) - 1], tick / TICK_HZ


Player = Callable[[Room, Mapping[str, Any], float, bool], np.ndarray]
"""(room, senses, seconds, first) to a command [2] for the gaze."""


def play(run: Run, player: Player) -> np.ndarray:
    """Degrees [T] between the middles of fovea and object in each frame, the frame's width taken as 60 degrees."""
    film = Film(run.frames)
    room = Room({"film": film}, lag_s=LAG_S, now=film.now, sleep=film.sleep)
    errors = []
    senses, info = room.reset()
    for tick, (x, y) in enumerate(run.middles):
        assert room.frame is run.frames[tick], "the room gave another frame than was to be judged"
        top, left, side = room.fovea.box(HEIGHT, WIDTH)
        errors.append(between_deg((left + side / 2, top + side / 2), (x, y)))
        look = player(room, senses, info["time_s"], tick == 0)
        if tick + 1 < len(run.middles):
            senses, _, _, _, info = room.step({"look": look})
    return np.array(errors)


def between_deg(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Angle between two pixels (x, y) of a frame that is 60 degrees wide."""
    focal = WIDTH / 2 / JUDGED_HALF
    one, other = (np.array([x - WIDTH / 2, y - HEIGHT / 2, focal]) for x, y in (a, b))
    return math.degrees(math.acos(min(1.0, one @ other / np.linalg.norm(one) / np.linalg.norm(other))))


class Child:
    """The agent stepped as in `devmind live`: the heads that its scores allow answer, or its arcs alone."""

    def __init__(self, folder: Path, arcs: bool = False) -> None:
        self.agent = Agent.from_pretrained(folder).eval()
        self.heads = standing(self.agent, None if arcs else read_results(folder))
        self.trunk = any(self.agent.tap_of(name).on_trunk for name in self.heads["look"])

    def __call__(self, room: Room, senses: Mapping[str, Any], time_s: float, first: bool) -> np.ndarray:
        if first:
            self.state = self.agent.new_state()
        percepts = self.agent.encode(self.state, Moment(time_s, senses, first=first))
        self.state, output = self.agent.step(
            self.state, percepts, effectors=["look"], trunk=self.trunk, standing=self.heads
        )
        # Where there is no target the arc gives no command, and the gaze rests.
        return output.to_action().effectors.get("look", np.zeros(2))


def turn_to(fovea: Fovea, x: float, y: float) -> np.ndarray:
    """The command that brings the pixel (x, y) of the frame to the fovea's middle."""
    per_slope = WIDTH / 2 / WIDE_HALF
    pan, tilt = (math.degrees(math.atan(off / per_slope)) for off in (WIDTH / 2 - x, HEIGHT / 2 - y))
    return np.clip(np.array([pan - fovea.pan_deg, tilt - fovea.tilt_deg]) / MAX_TURN_DEG, -1, 1)


class Flow:
    """Turns to the largest region whose flow differs from the camera's; stays where there is none."""

    size, least_px = (160, 120), 0.7

    def __init__(self) -> None:
        self.before: np.ndarray | None = None
        self.flow = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        grid = np.meshgrid(np.arange(4, self.size[0], 8), np.arange(4, self.size[1], 8))
        self.points = np.stack(grid, -1).reshape(-1, 2)
        self.pixels = np.stack([*np.meshgrid(np.arange(self.size[0]), np.arange(self.size[1])),
                                np.ones(self.size[::-1])], -1)  # fmt: skip

    def __call__(self, room: Room, senses: Mapping[str, Any], time_s: float, first: bool) -> np.ndarray:
        grey = cv2.resize(cv2.cvtColor(room.frame, cv2.COLOR_RGB2GRAY), self.size, interpolation=cv2.INTER_AREA)
        before, self.before = None if first else self.before, grey
        if before is None:
            return np.zeros(2)
        flow = self.flow.calc(grey, before, None)
        at = self.points.astype(np.float32)
        fit, _ = cv2.estimateAffine2D(at, at + flow[self.points[:, 1], self.points[:, 0]], ransacReprojThreshold=1.0)
        camera = np.zeros_like(flow) if fit is None else self.pixels @ fit.T - self.pixels[..., :2]
        moved = cv2.blur(np.linalg.norm(flow - camera, axis=-1), (5, 5))
        high = moved > max(self.least_px, 0.4 * moved.max())
        count, labels = cv2.connectedComponents(high.astype(np.uint8))
        if count < 2:
            return np.zeros(2)
        weight = np.bincount(labels.ravel(), moved.ravel(), count)
        rows, columns = np.nonzero(labels == 1 + weight[1:].argmax())
        scale = WIDTH / self.size[0]
        return turn_to(room.fovea, (columns.mean() + 0.5) * scale, (rows.mean() + 0.5) * scale)


class OddestColour:
    """Turns to the pixels of the fovea's picture whose hue is farthest from its median."""

    def __call__(self, room: Room, senses: Mapping[str, Any], time_s: float, first: bool) -> np.ndarray:
        picture = senses["sight"].astype(np.float32)
        chroma = picture - picture.mean(-1, keepdims=True)
        odd = np.abs(chroma - np.median(chroma, axis=(0, 1))).sum(-1)
        rows, columns = np.nonzero(odd > max(60.0, 0.6 * odd.max()))
        if not len(rows):
            return np.zeros(2)
        top, left, side = room.fovea.box(HEIGHT, WIDTH)
        scale = side / len(picture)
        return turn_to(room.fovea, left + (columns.mean() + 0.5) * scale, top + (rows.mean() + 0.5) * scale)


def players(agents: Mapping[str, Player]) -> dict[str, Player]:
    """Players by name; each starts anew at a run's first tick."""
    rng = numpy_rng("track_real", "random")
    found: dict[str, Player] = dict(agents)
    return found | {
        "optical flow (rule)": Flow(),
        "oddest colour (rule)": OddestColour(),
        "never moving": lambda *_: np.zeros(2),
        "random": lambda *_: rng.uniform(-1, 1, 2),
    }


def shown(errors: np.ndarray) -> str:
    """Share of frames with its interval, from errors [R, T] without the settling time."""
    share = float((errors[:, SETTLE_TICKS:] <= JUDGED_DEG).mean())
    low, high = wilson(share * len(errors), len(errors))  # type: ignore[arg-type]
    return f"{share:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Print one row per player, one column per clip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=Path, action="append", default=[], help="a saved agent; may be repeated")
    parser.add_argument("--data", type=Path, required=True, help="folder of *.mp4")
    parser.add_argument("--runs", type=int, default=25, help="runs in each clip")
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds of a run, the settling included")
    parser.add_argument("--anywhere", action="store_true", help="the object starts anywhere in the frame")
    parser.add_argument("--still", action="store_true", help="one frame of the clip as the background of each run")
    arguments = parser.parse_args()
    ticks = round(arguments.seconds * TICK_HZ)
    agents = {str(path): Child(path) for path in arguments.agent}
    every = players(agents | {f"{name}, arcs": Child(Path(name), arcs=True) for name, it in agents.items() if it.trunk})
    errors: dict[str, dict[str, list[np.ndarray]]] = {name: {} for name in every}
    with stepping_threads():
        for number, path in enumerate((None, *sorted(arguments.data.glob("*.mp4")))):
            clip, title = (frames_of(path), path.stem) if path else (None, WALLS)
            rng = numpy_rng("track_real", title)
            for state, way in objects(arguments.runs, ticks, EXAM_SEEDS_FROM + 100_000 * number, arguments.anywhere):
                run = composite(clip, state, way, int(rng.integers(1000)), arguments.still)
                for name, player in every.items():
                    errors[name].setdefault(title, []).append(play(run, player))
    report(errors)


def report(errors: Mapping[str, Mapping[str, list[np.ndarray]]]) -> None:
    """Print one table: share of frames with its interval by clip and in all, and the median error."""
    clips = list(next(iter(errors.values())))
    print(f"Frames within {JUDGED_DEG:g} degrees (frame width 60) after the first second; goal {GOAL}")
    print(f"{'':<24}" + "".join(f"{name:<23}" for name in (*clips, "all clips", "median error")))
    for name, by_clip in errors.items():
        every = np.concatenate([np.stack(by_clip[clip]) for clip in clips if clip != WALLS])
        columns = [*(shown(np.stack(by_clip[clip])) for clip in clips), shown(every)]
        columns.append(f"{np.median(every[:, SETTLE_TICKS:]):.1f} degrees")
        print(f"{name[-23:]:<24}" + "".join(f"{column:<23}" for column in columns))


if __name__ == "__main__":
    main()
