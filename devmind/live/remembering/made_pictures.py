"""Pictures of untaught things: things of the nursery and made-up surfaces, each in many examples.

The pictures are tiles of the sheet `pictures.jpg` beside this file, because drawing the nursery first compiles its
renderer. `python -m devmind.live.remembering.made_pictures` makes the sheet again, bit for bit on one machine.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from devmind.moment import SIGHT_SIZE

SHEET = Path(__file__).with_name("pictures.jpg")
TILE = 96
"""A tile has a margin round the 64 pixels of a fovea, so that an example can be shifted and turned."""
ROWS, COLUMNS = 6, 10
THINGS = 30
"""The first tiles show things of the nursery, the others surfaces."""


@cache
def tiles() -> np.ndarray:
    """uint8 [60, 96, 96, 3]."""
    from devmind.sessions.pictures import read_picture

    sheet = read_picture(SHEET)
    return sheet.reshape(ROWS, TILE, COLUMNS, TILE, 3).swapaxes(1, 2).reshape(-1, TILE, TILE, 3)


def picture_example(tile: np.ndarray, rng: np.random.Generator, variation: float = 1.0) -> np.ndarray:
    """Another look at a tile, uint8 [64, 64, 3]: shifted, turned, nearer or farther, in other light, with noise."""
    import cv2

    centre, scale = (TILE - 1) / 2, float(np.exp2(variation * rng.normal(0, 0.2)))
    turn = cv2.getRotationMatrix2D((centre, centre), variation * float(rng.normal(0, 10)), scale)
    turn[:, 2] = turn[:, 2] + (SIGHT_SIZE - TILE) / 2 + variation * rng.normal(0, 4, 2)
    flags, border = cv2.INTER_AREA, cv2.BORDER_REFLECT_101
    seen = cv2.warpAffine(tile, turn, (SIGHT_SIZE, SIGHT_SIZE), flags=flags, borderMode=border).astype(np.float32)
    light = np.exp2(variation * (rng.normal(0, 0.2) + rng.normal(0, 0.05, 3)))
    seen = seen.mean() + (seen - seen.mean()) * np.exp2(variation * rng.normal(0, 0.2))
    seen = seen * light + rng.normal(0, rng.uniform(0, 6), seen.shape)
    return np.clip(seen, 0, 255).astype(np.uint8)


def nursery_things(looks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Things of the nursery near the middle of the view, uint8 [N, 96, 96, 3].

    Args:
        looks: int64 [N, 3]: shape, colour and texture, counted as in the nursery's SHAPES, COLOURS and TEXTURES.
    """
    from devmind.worlds.nursery.spawning import empty_room, in_view, put_object
    from devmind.worlds.nursery.views import SIGHT_FOV_DEG, draw, scene

    n = len(looks)
    state = empty_room(rng.integers(0, 1_000_000, n))
    state.pan[:], state.tilt[:] = rng.uniform(-60, 60, n), rng.uniform(-15, 15, n)
    state.shape[:, 0], state.colour[:, 0], state.texture[:, 0] = looks.T
    state.size[:, 0] = rng.uniform(0.14, 0.2, n)
    put_object(state, 0, in_view(state, rng.uniform(-4, 4, n), rng.uniform(-4, 4, n), rng.uniform(0.8, 1.3, n)))
    # The tile is wider than a fovea, and so is its field of view.
    rgb, _, _ = draw(
        state, scene(state, state.position), state.pan, state.tilt, SIGHT_FOV_DEG * TILE / SIGHT_SIZE, TILE
    )
    return rgb


def make_sheet() -> int:
    """Draw the tiles and write them; returns the bytes of the file."""
    import cv2

    from devmind.worlds.nursery.pictures import bank
    from devmind.worlds.nursery.state import COLOURS, SHAPES, TEXTURES

    rng = np.random.default_rng(2611)
    kinds = rng.permutation(len(SHAPES) * len(COLOURS) * len(TEXTURES))[:THINGS]
    looks = np.stack(np.unravel_index(kinds, (len(SHAPES), len(COLOURS), len(TEXTURES))), 1)
    surfaces = np.flatnonzero(np.arange(len(bank())) % 3)  # the others are parts of photographs that are not ours
    chosen = bank()[rng.permutation(surfaces)[: ROWS * COLUMNS - THINGS]]
    every = np.concatenate([nursery_things(looks, rng), chosen])
    sheet = every.reshape(ROWS, COLUMNS, TILE, TILE, 3).swapaxes(1, 2).reshape(ROWS * TILE, COLUMNS * TILE, 3)
    done, data = cv2.imencode(".jpg", sheet[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])
    assert done
    return SHEET.write_bytes(data.tobytes())


if __name__ == "__main__":
    print(f"{SHEET}: {make_sheet():,} bytes")
