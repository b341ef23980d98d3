"""The cost per tick of each part of a page's view, in milliseconds of one thread's CPU time (and of wall time).

OMP_NUM_THREADS=1 python benchmarks/view_cost.py --agent checkpoints/.../milestones/01-reflex
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.attention import ReadoutAttention
from devmind.agent.threads import stepping_threads
from devmind.live.viewing.agreement import SENSE, agreement, back, mirrored
from devmind.live.viewing.drawing import drawn, jpeg
from devmind.live.viewing.hearing import heard
from devmind.live.viewing.overlay_confidence import EVERY_TICKS
from devmind.live.viewing.view import overlay_head
from devmind.moment import TICK_HZ, Moment
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds import make
from stages.reflex.direction import direction_deg

TICKS, WARM_UP = 100, 10


class Clock:
    """Times of named parts."""

    def __init__(self) -> None:
        self.times: dict[str, list[tuple[float, float]]] = defaultdict(list)

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Time the body."""
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        yield
        self.times[part].append((1e3 * (time.thread_time() - cpu_s), 1e3 * (time.perf_counter() - wall_s)))


@torch.no_grad()
def measure(agent: Agent, head: str) -> Clock:
    """Live in a room of the nursery for some ticks, with every view shown."""
    clock, state, attention = Clock(), agent.new_state(), ReadoutAttention(agent)
    world = make("nursery", "room", exam_seeds(1, "view cost"))
    frame = numpy_rng("frame").integers(0, 256, (480, 640, 3), dtype=np.uint8)
    for tick in range(TICKS):
        observed = world.step({"look": np.zeros((1, 2), np.float32)})[0]
        moment = Moment(tick / TICK_HZ, {name: observed[name][0] for name in ("sight", "sound")}, first=tick == 0)
        with clock.of("(encode and step, for comparison)"):
            percepts = agent.encode(state, moment)
            state, _ = agent.step(state, percepts, effectors=["look"])
        with clock.of(f"head '{head}' and its overlays"):
            seen = agent.run_heads([head], percepts.seen)[head].overlays()
        with clock.of(f"the same in the mirror, every {EVERY_TICKS} ticks"):
            other = mirrored(agent, head, percepts)
            turned = back(other.overlays()) if other else seen
            _ = [agreement(kind, seen, turned) for kind in seen]
        with clock.of("drawing boxes, masks, depth"):
            shown = drawn(seen, dict.fromkeys(seen, 1.0), 0.7)
        with clock.of("attention"):
            attention.over(SENSE, percepts)
        sound = np.asarray(observed["sound"][0])
        with clock.of("sound (with direction)"):
            heard_sound = heard(sound)
        with clock.of("  of it direction"):
            direction_deg(agent, sound)
        with clock.of("JSON"):
            json.dumps({"overlays": shown, "sound": heard_sound})
        with clock.of("JPEG of 640x480 at 480 px"):
            jpeg(frame)
    return clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, required=True)
    agent = Agent.from_pretrained(parser.parse_args().agent)
    head = overlay_head(agent)
    if head is None:
        raise SystemExit("No head of this agent offers overlays.")
    with stepping_threads():
        clock = measure(agent, head)
    print(f"{'part':<48}{'CPU p50':>9}{'CPU p95':>9}{'wall p50':>10}")
    for part, times in clock.times.items():
        cpu, wall = np.array(times[WARM_UP:]).T
        print(f"{part:<48}{np.quantile(cpu, 0.5):>9.2f}{np.quantile(cpu, 0.95):>9.2f}{np.quantile(wall, 0.5):>10.2f}")


if __name__ == "__main__":
    main()
