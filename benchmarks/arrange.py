"""Four variants of imagining a plan for `arrange`, taught alike: the hybrid and the paper's three baselines.

    OMP_NUM_THREADS=1 python benchmarks/arrange.py --steps 700 --seeds 3

Each variant learns from the same scripted plans (order and places drawn anew each time) for the same number of steps,
with networks of one size that point at things in the same way (`separate` has two of them). It then makes one plan per
table for the same unseen tables, and the plan is carried out. Printed are the share of sorted tables with intervals;
the same with five times the denoising steps; how often a plan step changes its thing during denoising (mode changes);
the share of plans that grasp a thing twice or put two into one place (confused); and the gain of `masked` over each
other variant, paired by table. The agent and its trunk are not involved.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.tabletop import LEVELS as LEVEL_THINGS
from devmind.worlds.tabletop import SORTED, Table, TabletopRules
from stages.planning.arrange.demonstrations import arranged, plans, shuffled
from stages.planning.imagining import VARIANTS, Imaginer, confusion, scene

LEVELS = ("two", "three")
TAUGHT = (*LEVELS, "three" + SORTED)
TABLES, ROWS, LEARNING_RATE = 4_000, 128, 2e-3
"""Of each level that is taught; of a batch."""
Z95 = 1.96


def tables(level: str, seeds: np.ndarray) -> Table:
    """The tables of a level at their start."""
    return TabletopRules(level).initial(seeds)


def taught(variant: str, steps: int, seed: int) -> Imaginer:
    """An imaginer after `steps` steps of teaching."""
    torch.manual_seed(seed)
    imaginer = Imaginer(variant)
    data = Table.concat([tables(level, lesson_seeds(TABLES, seed, "arrange", level)) for level in TAUGHT])
    optimizer = torch.optim.AdamW(imaginer.parameters(), LEARNING_RATE, betas=(0.9, 0.98))
    for step in range(steps):
        rng = numpy_rng(seed, "arrange", step)
        rate = LEARNING_RATE * min(1.0, (step + 1) / 50, (steps - step) / (0.5 * steps))
        optimizer.param_groups[0]["lr"] = rate
        table = shuffled(data.take(rng.integers(0, len(data), ROWS)), rng)
        points, words = (torch.from_numpy(part) for part in plans(table, rng))
        generator = torch_generator(seed, "arrange", step)
        loss = torch.stack(list(imaginer.losses(scene(table), points, words, generator).values())).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(imaginer.parameters(), 1.0)
        optimizer.step()
    return imaginer.eval()


def sorted_by(imaginer: Imaginer, level: str, seeds: np.ndarray, steps: int, rounds: int = 1) -> np.ndarray:
    """Whether one plan sorts each table, float64 [N]."""
    generator = torch_generator("arrange", imaginer.variant, level)

    def imagine(table: Table) -> np.ndarray:
        return imaginer.draw(scene(table), generator, steps=steps)[0].numpy()

    return arranged(TabletopRules(level), tables(level, seeds), imagine, rounds)[0].astype(float)


def confused(imaginer: Imaginer, level: str, seeds: np.ndarray) -> tuple[float, float]:
    """Mode changes of a plan during denoising, and the share of plans that use anything twice."""
    seen = scene(tables(level, seeds))
    chance = imaginer.chance(len(seen), torch_generator("arrange", imaginer.variant, level))
    return confusion(imaginer, seen, seen.any(-1), chance, 2 * LEVEL_THINGS[level])


def main() -> None:
    """Teach, examine and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=700, help="teaching steps of each variant")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds for each variant")
    parser.add_argument("--tables", type=int, default=400, help="unseen tables of each level")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    options = parser.parse_args()
    for seed in range(options.seeds):
        asked = {level: exam_seeds(options.tables, seed, "arrange", level) for level in LEVELS}
        came: dict[tuple[str, str], np.ndarray] = {}
        for variant in options.variants:
            began = time.process_time()
            imaginer = taught(variant, options.steps, seed)
            spent = time.process_time() - began
            for level in LEVELS:
                came[variant, level] = one = sorted_by(imaginer, level, asked[level], imaginer.steps)
                half = Z95 * one.std() / len(one) ** 0.5
                longer = sorted_by(imaginer, level, asked[level], 5 * imaginer.steps).mean()
                again = sorted_by(imaginer, level, asked[level], imaginer.steps, rounds=2).mean()
                changes, twice = confused(imaginer, level, asked[level])
                print(
                    f"seed {seed}  {variant:10}  {level:5}  sorted {one.mean():.3f} ± {half:.3f}  in five times the "
                    f"steps {longer:.3f}  with a second plan {again:.3f}  mode changes {changes:.2f}  "
                    f"confused {twice:.3f}  n {len(one)}  {spent:.0f} CPU s",
                    flush=True,
                )
        for variant in options.variants:
            if variant != "masked" and ("masked", "three") in came:
                for level in LEVELS:
                    gap = came["masked", level] - came[variant, level]
                    half = Z95 * gap.std() / len(gap) ** 0.5
                    print(f"seed {seed}  masked above {variant:10}  {level:5}  {gap.mean():+.3f} ± {half:.3f}, paired")


if __name__ == "__main__":
    main()
