"""Is the page's "sure" reliable? Overlay confidence against the truth in rooms, and on pictures that are no rooms.

The calibration has seen neither these rooms nor the corruptions called `unmet`. `ECE` is the expected calibration error
over ten bins, `Brier` the mean squared error (beside that of always answering the mean); `right if sure` is the share
of right answers among those that a page would have shown. Streams are stepped as in life: `sure` is the share of ticks,
from the fifth second on. Videos and noise show nothing that the agent was taught, so being sure there is wrong.

    OMP_NUM_THREADS=1 python benchmarks/confidence.py --agent checkpoints/.../milestones/01-reflex --data DIR
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.live.viewing.agreement import accuracy
from devmind.live.viewing.confidence import (
    TAUGHT,
    Calibration,
    Evidence,
    Reliability,
    calibration_rooms,
    gather,
    learn,
)
from devmind.live.viewing.corruptions import THINGS, Corruption, corrupted_rooms
from devmind.live.viewing.overlay_confidence import OverlayConfidence
from devmind.live.viewing.view import SURE, overlay_head
from devmind.moment import TICK_HZ, Moment
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.fovea import Fovea
from devmind.worlds.nursery.rules import NurseryRules
from devmind.worlds.nursery.views import views
from stages.reflex.direction import DIRECTION, direction_deg

HELD_OUT = 400
STREAM_TICKS, SETTLED_TICKS = 150, 5 * TICK_HZ


def _salt(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    return np.where(rng.random(pair.shape[:3])[..., None] < 0.3 * strength, rng.choice([0, 255]), pair)


def _pixels(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    size = round(64 / (2 + 6 * strength))
    small = [cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA) for picture in pair]
    return np.stack([cv2.resize(picture, (64, 64), interpolation=cv2.INTER_NEAREST) for picture in small])


def _invert(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    return (1 - strength) * pair + strength * (255 - pair)


def _stripes(pair: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    return pair + 120 * strength * np.sin(np.arange(64) * rng.uniform(0.3, 2))[:, None]


UNMET: Mapping[str, Corruption] = {"salt": _salt, "pixels": _pixels, "invert": _invert, "stripes": _stripes}


def reliability(calibration: Calibration, learned: Evidence, tested: Evidence, title: str) -> None:
    """Print the calibration of the confidence, and of either half of its evidence alone."""
    print(f"{title:<24}{'kind':<7}{'evidence':<12}{'ECE':>7}{'Brier':>8}{'(mean)':>8}{'sure':>7}{'right if sure':>15}")
    parts = {"both": (1, 1), "mirror": (1, 0), "distance": (0, 1)}
    for kind in calibration.kinds:
        (x, right), (new, truth) = (_known(calibration, evidence, kind) for evidence in (learned, tested))
        for name, use in parts.items():
            fitted = Reliability.of(x * use, right)
            share = np.array([fitted.share(*row) for row in new * use])
            sure = share >= SURE
            error, floor = np.square(share - truth).mean(), truth.var()
            good = truth[sure].mean() if sure.any() else float("nan")
            line = f"{_ece(share, truth):>7.3f}{error:>8.3f}{floor:>8.3f}{sure.mean():>7.2f}{good:>15.3f}"
            print(f"{'':<24}{kind:<7}{name:<12}{line}")


def _known(calibration: Calibration, evidence: Evidence, kind: str) -> tuple[np.ndarray, np.ndarray]:
    unlike = np.array([calibration.density.distance(tokens) for tokens in evidence.tokens])
    found = evidence.kinds[kind]
    shown = ~np.isnan(found[:, 1])
    return np.column_stack([found[:, 0], unlike])[shown], found[shown, 1]


def _ece(share: np.ndarray, truth: np.ndarray) -> float:
    bins = np.minimum((share * 10).astype(int), 9)
    gaps = [abs(share[bins == b].mean() - truth[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(sum(gaps))


def video(path: Path) -> Iterator[np.ndarray]:
    """The view of a wandering fovea in a film, ten times a second; a short film is repeated."""
    film, fovea, rng = cv2.VideoCapture(str(path)), Fovea(), numpy_rng("gaze", path.name)
    every, frames = max(1, round(film.get(cv2.CAP_PROP_FPS) / TICK_HZ)), []
    while (read := film.read())[0]:
        frames.append(np.ascontiguousarray(read[1][..., ::-1]))
    for tick in range(STREAM_TICKS):
        if tick % TICK_HZ == 0:
            fovea.turn(rng.uniform(-0.6, 0.6, 2))
        yield fovea.see(frames[tick * every % len(frames)])["sight"]


def nursery(seed: int, truths: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[np.ndarray]:
    """The view of a child that looks around, with a new room every 30 ticks; appends (things, depth) to `truths` per
    tick.
    """
    rules, rng = NurseryRules("room"), numpy_rng("round", seed)
    for episode in range(5):
        state = rules.initial(exam_seeds(1, "stream", seed, episode))
        for tick in range(30):
            seen = views(state)
            truths.append((np.where(seen["mask"] <= THINGS, seen["mask"], 0)[0], seen["depth"][0]))
            yield seen["sight"][0]
            look = rng.uniform(-0.4, 0.4, (1, 2)) if tick % 10 == 0 else np.zeros((1, 2))
            state = rules.step(state, {"look": look.astype(np.float32)})


def stream(
    agent: Agent,
    overlay_confidence: OverlayConfidence,
    frames: Iterator[np.ndarray],
    title: str,
    truths: Sequence[tuple[np.ndarray, np.ndarray]] = (),
) -> None:
    """Print how sure a stream's overlays are and, where the truth is known, how many are right."""
    overlay_confidence.now.clear()
    state, history, right = agent.new_state(), [], []
    for tick, sight in enumerate(frames):
        percepts = agent.encode(state, Moment(tick / TICK_HZ, {"sight": np.asarray(sight)}, first=tick == 0))
        state, output = agent.step(state, percepts, effectors=[], heads=[overlay_confidence.head], trunk=False)
        seen = output.outputs[overlay_confidence.head].overlays()
        history.append(overlay_confidence.see(percepts, seen, tick / TICK_HZ))
        right.append({kind: accuracy(kind, seen, *truths[-1]) if truths else None for kind in seen})
    settled = history[SETTLED_TICKS:]
    line = "".join(
        f"{kind}: sure {np.mean([each[kind] >= SURE for each in settled]):.2f}, "
        f"mean {np.mean([each[kind] for each in settled]):.2f}{_share(right[SETTLED_TICKS:], kind)}   "
        for kind in history[0]
    )
    print(f"{title:<24}{len(history):>4} ticks   {line}")


def _share(right: Sequence[Mapping[str, float | None]], kind: str) -> str:
    known = [each[kind] for each in right if each[kind] is not None]
    return f", right {np.mean(np.array(known)):.2f}" if known else ""


def directions(agent: Agent) -> None:
    """Print how well the direction of a sound is reported while the head turns."""
    rules, seeds = NurseryRules("orient/sound"), exam_seeds(HELD_OUT, "direction")
    look = numpy_rng("direction").uniform(-1, 1, (HELD_OUT, 2)).astype(np.float32)
    state = rules.step(rules.initial(seeds), {"look": look})
    truth = rules.truth(state)
    side = np.degrees(np.arcsin(np.sin(np.radians(truth["target_azimuth_deg"] - truth["pan_deg"]))))
    angles = np.array([direction_deg(agent, sound) for sound in rules.observe(state)["sound"]], float)
    off = np.abs(angles - side)[~np.isnan(angles)]
    right = (angles * side > 0)[~np.isnan(angles)].mean()
    print(
        f"direction: reported in {len(off) / HELD_OUT:.2f}, within 15 degrees {(off < 15).mean():.3f}, "
        f"median off {np.median(off):.1f} degrees, left or right reported correctly {right:.3f}"
    )


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="a folder with video/*.mp4")
    given = parser.parse_args()
    agent = Agent.from_pretrained(given.agent)
    head = overlay_head(agent)
    if head is None:
        raise SystemExit("No head of this agent offers overlays.")
    with stepping_threads():
        begun_s = time.perf_counter()
        rooms = calibration_rooms()
        drawn_s = time.perf_counter()
        learned = Evidence.joined(list(gather(agent, head, rooms)))
        calibration = learn(head, learned, rooms)
        print(f"rooms {drawn_s - begun_s:.1f} s, calibration {time.perf_counter() - drawn_s:.1f} s")
        known = corrupted_rooms(exam_seeds(HELD_OUT, "confidence"), TAUGHT)
        unmet = corrupted_rooms(exam_seeds(HELD_OUT, "unmet"), ("clean", *UNMET), UNMET)
        reliability(calibration, learned, Evidence.joined(list(gather(agent, head, known))), "ways it was taught")
        reliability(calibration, learned, Evidence.joined(list(gather(agent, head, unmet))), "clean and unmet ways")
        overlay_confidence = OverlayConfidence(agent, head)
        overlay_confidence.wait()
        for seed in range(2):
            truths: list[tuple[np.ndarray, np.ndarray]] = []
            stream(agent, overlay_confidence, nursery(seed, truths), f"nursery {seed}", truths)
        noise = numpy_rng("noise").integers(0, 256, (STREAM_TICKS, 64, 64, 3), dtype=np.uint8)
        stream(agent, overlay_confidence, iter(noise), "noise")
        stream(agent, overlay_confidence, iter(np.full((STREAM_TICKS, 64, 64, 3), 8, np.uint8)), "darkness")
        for path in sorted(given.data.glob("video/*.mp4")) if given.data else []:
            stream(agent, overlay_confidence, video(path), path.name)
        if DIRECTION in agent.heads:
            directions(agent)


if __name__ == "__main__":
    main()
