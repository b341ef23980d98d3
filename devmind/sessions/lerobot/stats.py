"""meta/stats.json of a LeRobotDataset: statistics of each feature's values, per episode and over all of them."""

from __future__ import annotations

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
PICTURES_SAMPLED = 100
PIXELS_A_SIDE = 150

Stats = dict[str, np.ndarray]


def stats_of(values: np.ndarray) -> Stats:
    """min, max, mean, std and quantiles [K] and count [1] of the rows of [N, K]; NaN is left out.

    A column without any number gets zeros: the file holds no NaN.
    """
    values = np.array(values, np.float64)
    values[:, np.isnan(values).all(0)] = 0
    quantiles = dict(zip(QUANTILES, np.nanquantile(values, list(QUANTILES.values()), axis=0), strict=True))
    return {
        "min": np.nanmin(values, 0),
        "max": np.nanmax(values, 0),
        "mean": np.nanmean(values, 0),
        "std": np.nanstd(values, 0),
        "count": np.array([len(values)]),
        **quantiles,
    }


def picture_stats(pictures: list[np.ndarray]) -> Stats:
    """The same per colour, shaped [3, 1, 1] and scaled to 0..1, of RGB uint8 [H, W, 3]; count is that of pictures."""
    pixels = np.concatenate([thin_picture(picture).reshape(-1, 3) for picture in pictures])
    stats = {name: (value / 255).reshape(3, 1, 1) for name, value in stats_of(pixels).items() if name != "count"}
    return {**stats, "count": np.array([len(pictures)])}


def thin_picture(picture: np.ndarray) -> np.ndarray:
    """Every n-th pixel, so that no side is longer than 150: statistics need no more."""
    return picture[:: 1 + picture.shape[0] // (PIXELS_A_SIDE + 1), :: 1 + picture.shape[1] // (PIXELS_A_SIDE + 1)]


def all_stats(episodes: list[Stats]) -> Stats:
    """The statistics of all episodes from those of each: exact except for quantiles, which are averaged by count."""
    counts = np.array([stats["count"][0] for stats in episodes], np.float64)

    def mean(values: list[np.ndarray]) -> np.ndarray:
        return np.average(np.stack(values), axis=0, weights=counts)

    centre = mean([stats["mean"] for stats in episodes])
    variance = mean([stats["std"] ** 2 + (stats["mean"] - centre) ** 2 for stats in episodes])
    return {
        "min": np.min([stats["min"] for stats in episodes], axis=0),
        "max": np.max([stats["max"] for stats in episodes], axis=0),
        "mean": centre,
        "std": np.sqrt(variance),
        "count": np.array([int(counts.sum())]),
        **{name: mean([stats[name] for stats in episodes]) for name in QUANTILES},
    }
