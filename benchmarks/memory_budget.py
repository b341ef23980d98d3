"""The cost of memory, and the loss by a budget: real videos and sounds kept as in a life, ten Moments a second.

    OMP_NUM_THREADS=1 python benchmarks/memory_budget.py --data DIR [--agent DIR] [--minutes 3]

- Bytes per lived hour for several rules that decide which Moments are kept (`MemoryConfig.novelty`).
- Recall by the size of the budget: every Moment was kept; entries are removed by the policy of `forgetting.py` (with
the importance from the novelty), by age alone, or at random; then each Moment of the second pass recalls four. A recall
is right when one of them was lived in the same file within two seconds. The second pass is the same films with another
gaze (the fovea moved by a fifth of its width) and noise, so that no query key equals a kept one.
- The loss by int8 keys: the share of the exact eight nearest that are among the eight found.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.describing import describe
from devmind.agent.threads import stepping_threads
from devmind.live.remembering.recalling import KEPT
from devmind.memory import Budget, Entry, Key, Memory, open_store
from devmind.memory.columns import top
from devmind.memory.forgetting import surplus
from devmind.memory.index import cosines, quantised
from devmind.moment import TICK_HZ, Moment
from devmind.raised import FOLDER
from devmind.sessions.media import media_moments

NEAR_S = 2.0


@dataclass(frozen=True)
class Lived:
    """A Moment with its keys, its file, and its seconds after the file's start."""

    file: str
    at_s: float
    moment: Moment
    keys: dict[str, Key]


def lived(agent: Agent, files: list[Path], most: int, shaken: bool = False) -> Iterator[Lived]:
    """Moments of files, at most `ticks` of each; `shaken` as if seen and heard at another time."""
    rng = np.random.default_rng(1)
    for file in files:
        for tick, moment in enumerate(itertools.islice(media_moments(file), most)):
            senses = {sense: moment.senses[sense] for sense in KEPT if sense in moment.senses}
            if shaken:
                senses = {sense: shake(value, rng) for sense, value in senses.items()}
            found = describe(agent, senses)
            keys = {sense: Key(what.vector, "agent") for sense, what in found.items()}
            if keys:
                yield Lived(file.name, tick / TICK_HZ, Moment(moment.time_s, senses), keys)


def shake(value: object, rng: np.random.Generator) -> object:
    """A picture moved by a fifth and noisy, a sound with noise; anything else unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.uint8:
        moved = np.roll(value, value.shape[1] // 5, axis=1).astype(float) + rng.normal(0, 8, value.shape)
        return np.clip(moved, 0, 255).astype(np.uint8)
    return np.clip(value + rng.normal(0, 0.005, value.shape), -1, 1).astype(np.float32)


def cost(life: list[Lived], novelty: float | None, every_s: float) -> tuple[int, int, list[float]]:
    """(entries kept, their bytes, novelties) when a Moment is kept above that novelty, at most once in `every_s`."""
    kept, novelties, last_s = 0, [], -np.inf
    with open_store(None) as store:
        memory = Memory(store)
        for tick, one in enumerate(life):
            table = memory.index.update()
            likest = float(table.relevance(one.keys).max(initial=-1.0)) if len(table.ids) else -1.0
            novelties.append(1 - likest)
            now_s = tick / TICK_HZ
            if now_s - last_s >= every_s - 1e-6 and (novelty is None or 1 - likest >= novelty):
                memory.write(one.moment, one.keys, importance=float(np.clip(1 - likest, 0, 1)))
                kept, last_s = kept + 1, now_s
        return kept, store.sizes().bytes, novelties


def costs(life: list[Lived]) -> None:
    """Print bytes per lived hour."""
    hours = len(life) / TICK_HZ / 3600
    print("| kept | entries an hour | MB an hour |\n|---|---|---|")
    rows: list[tuple[str, float | None, float]] = [("every Moment", None, 0.0), ("one a second", None, 1.0)]
    rows += [(f"novelty {novelty:g}, one a second at most", novelty, 1.0) for novelty in (0.02, 0.05, 0.1, 0.2, 0.3)]
    for title, novelty, every_s in rows:
        kept, size, novelties = cost(life, novelty, every_s)
        print(f"| {title} | {kept / hours:,.0f} | {size / 1e6 / hours:,.1f} |", flush=True)
        if title == "one a second":
            shares = ", ".join(f"{q:.0%}: {np.quantile(novelties, q):.3f}" for q in (0.1, 0.5, 0.9, 0.99))
            print(f"(quantiles of the novelty of these Moments: {shares})")


def against_budget(life: list[Lived], asked: list[Lived]) -> None:
    """Print recall@4 for budgets, by the order of removal."""
    with open_store(None) as store:
        memory = Memory(store)
        for tick, one in enumerate(life):
            table = memory.index.update()
            likest = float(table.relevance(one.keys).max(initial=-1.0)) if len(table.ids) else -1.0
            store.add([Entry(tick / TICK_HZ, float(np.clip(1 - likest, 0, 1)), None, one.keys)])
        facts, sizes, now_s = store.facts(), store.sizes(), len(life) / TICK_HZ
        table = memory.index.update()
    rng = np.random.default_rng(0)
    wanted = asked[:: max(1, len(asked) // 400)]
    print(f"\nrecall@4 of {len(wanted)} Moments\n| share kept | policy | oldest removed | random |\n|---|---|---|---|")
    for share in (1.0, 0.5, 0.25, 0.1, 0.05, 0.02):
        budget = Budget(entries=max(1, round(share * len(life))), half_life_h=138.0)
        gone = {
            "policy": surplus(facts, sizes, budget, now_s),
            "oldest": facts.ids[: len(life) - budget.entries] if budget.entries else facts.ids,
            "chance": rng.permutation(facts.ids)[: len(life) - (budget.entries or 0)],
        }
        scores = {}
        for name, ids in gone.items():
            left = replace(table, alive=~np.isin(table.ids, ids))
            scores[name] = np.mean([right(left, life, one) for one in wanted])
        print(f"| {share:.0%} | {scores['policy']:.3f} | {scores['oldest']:.3f} | {scores['chance']:.3f} |", flush=True)


def right(table: object, life: list[Lived], asked: Lived) -> bool:
    """Whether one of the four nearest was lived in the same file within two seconds."""
    relevance = np.where(table.alive, table.relevance(asked.keys), -np.inf)  # type: ignore[attr-defined]
    found = [life[place] for place in top(relevance, table.ids, 4)]  # type: ignore[attr-defined]
    return any(one.file == asked.file and abs(one.at_s - asked.at_s) <= NEAR_S for one in found)


def int8(life: list[Lived], asked: list[Lived]) -> None:
    """Print the loss by int8 keys."""
    print("\n| sense | keys | recall@8 of int8 | largest error of a cosine |\n|---|---|---|---|")
    for sense in ("sight", "sound"):
        keys = [one.keys[sense].vector for one in life if sense in one.keys]
        questions = [one.keys[sense].vector for one in asked if sense in one.keys][:: max(1, len(asked) // 400)]
        if not keys or not questions:
            continue
        matrix, ids, hits, error = np.stack(keys), np.arange(len(keys)), 0, 0.0
        (small, scales), ones = quantised(matrix), np.ones(len(matrix), np.float32)
        for question in questions:
            exact, rough = cosines(matrix, question, ones), cosines(small, question, scales)
            hits += len(set(top(exact, ids, 8).tolist()) & set(top(rough, ids, 8).tolist()))
            error = max(error, float(np.abs(exact - rough).max()))
        print(f"| {sense} | {len(keys)} | {hits / 8 / len(questions):.3f} | {error:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with video/*.mp4 and sounds/*/*/*.wav")
    parser.add_argument("--agent", type=Path, default=FOLDER)
    parser.add_argument("--ticks", type=int, default=300, help="most ticks of each film")
    parser.add_argument("--sounds", type=int, default=40, help="most sound files")
    given = parser.parse_args()
    films, sounds = sorted(given.data.glob("video/*.mp4")), sorted(given.data.glob("sounds/*/*/*.wav"))
    files = films + sounds[:: max(1, len(sounds) // given.sounds)][: given.sounds]
    agent = Agent.from_pretrained(given.agent)
    with stepping_threads():
        life = list(lived(agent, files, given.ticks))
        asked = list(lived(agent, files, given.ticks, shaken=True))
    print(f"{len(films)} films and {len(files) - len(films)} sounds, {len(life) / TICK_HZ:.0f} s of life")
    costs(life)
    against_budget(life, asked)
    int8(life, asked)


if __name__ == "__main__":
    main()
