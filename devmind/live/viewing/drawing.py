"""Pictures for the page: overlays and frames as PNG and JPEG."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from devmind.acting.confidence import Overlays

WIDEST_PX = 480
JPEG_QUALITY = 75
MASK_ALPHA, DEPTH_ALPHA = 150, 170
HUE_STEP = 67
"""Step among OpenCV's 180 hues: neighbouring numbers get very different colours."""


def data_url(picture: np.ndarray) -> str:
    """A picture RGBA uint8 [H, W, 4] as the data URL of a PNG."""
    import cv2

    _, encoded = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGBA2BGRA), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    return "data:image/png;base64," + base64.b64encode(encoded.tobytes()).decode()


def jpeg(frame: np.ndarray) -> bytes:
    """A frame RGB uint8 [H, W, 3] as JPEG, at most 480 px wide and high."""
    import cv2

    height, width = frame.shape[:2]
    scale = WIDEST_PX / max(height, width)
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        frame = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    return encoded.tobytes()


def _boxes(boxes: np.ndarray) -> dict[str, Any]:
    return {"boxes": [[round(float(value), 3) for value in box] for box in boxes]}


def _masks(masks: np.ndarray) -> dict[str, Any]:
    import cv2

    hues = np.zeros((1, 256, 3), np.uint8)
    hues[0, :] = np.stack([np.arange(256) * HUE_STEP % 180, np.full(256, 200), np.full(256, 240)], 1)
    colours = np.concatenate([cv2.cvtColor(hues, cv2.COLOR_HSV2RGB)[0], np.full((256, 1), MASK_ALPHA, np.uint8)], 1)
    colours[0] = 0
    return {"png": data_url(colours[masks])}


def _depth(depth: np.ndarray) -> dict[str, Any]:
    import cv2

    near_m, far_m = float(depth.min()), float(depth.max())
    close = 1 - (np.log(depth) - np.log(near_m)) / max(np.log(far_m) - np.log(near_m), 1e-6)
    coloured = cv2.applyColorMap(np.clip(255 * close, 0, 255).astype(np.uint8), cv2.COLORMAP_VIRIDIS)
    picture = np.dstack([coloured[..., ::-1], np.full(depth.shape, DEPTH_ALPHA, np.uint8)])
    return {"png": data_url(picture), "near_m": round(near_m, 2), "far_m": round(far_m, 2)}


_DRAW: dict[str, Callable[[np.ndarray], dict[str, Any]]] = {"boxes": _boxes, "masks": _masks, "depth": _depth}


def draw_overlays(overlays: Overlays, confidence: dict[str, float], sure: float) -> dict[str, Any]:
    """Overlays by kind with their confidence, for the page; those below `sure` are not drawn at all."""
    shown: dict[str, Any] = {}
    for kind in overlays.keys() & _DRAW.keys():
        trust = confidence.get(kind, 0.0)
        shown[kind] = {"confidence": round(trust, 3), "sure": trust >= sure}
        if trust >= sure:
            shown[kind] |= _DRAW[kind](overlays[kind])
    return shown
