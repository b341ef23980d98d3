"""A made-up but realistic results.json: six skills, one failed gate, one cut lesson, pictures and sounds."""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import cv2
import numpy as np
import pytest


def png(rng: np.random.Generator, kind: str) -> str:
    """A 64 x 64 scene with a true and a predicted box, a mask, or its depth."""
    scene = np.full((64, 64, 3), (200, 214, 220), np.uint8)
    scene[44:] = (120, 150, 170)
    depth = np.tile(np.linspace(60, 200, 64)[:, None], (1, 64))
    for _ in range(3):
        x, y, r = rng.integers(12, 52), rng.integers(16, 52), rng.integers(6, 11)
        colour = tuple(int(c) for c in rng.integers(40, 230, 3))
        cv2.circle(scene, (int(x), int(y)), int(r), colour, -1)
        cv2.circle(depth, (int(x), int(y)), int(r), float(rng.integers(120, 255)), -1)
    if kind == "boxes":
        cv2.rectangle(scene, (int(x - r), int(y - r)), (int(x + r), int(y + r)), (60, 180, 60), 1)
        cv2.rectangle(scene, (int(x - r + 2), int(y - r - 1)), (int(x + r + 3), int(y + r)), (40, 40, 220), 1)
    if kind == "mask":
        mask = np.zeros((64, 64), np.uint8)
        cv2.circle(mask, (int(x), int(y)), int(r), 1, -1)
        scene[mask == 1] = scene[mask == 1] // 2 + np.array([110, 20, 110], np.uint8)
    if kind == "depth":
        scene = cv2.applyColorMap(depth.astype(np.uint8), cv2.COLORMAP_VIRIDIS)
    return base64.b64encode(cv2.imencode(".png", scene)[1].tobytes()).decode()


def strip(rng: np.random.Generator, kinds: tuple[str, ...]) -> str:
    """Scenes side by side with white gaps, enlarged three times, as an exam draws them."""
    parts = [cv2.imdecode(np.frombuffer(base64.b64decode(png(rng, kind)), np.uint8), 1) for kind in kinds]
    gap = np.full((64, 2, 3), 255, np.uint8)
    whole = np.concatenate([part for one in parts for part in (gap, one)][1:], 1)
    return base64.b64encode(cv2.imencode(".png", whole.repeat(3, 0).repeat(3, 1))[1].tobytes()).decode()


def wav(pitch_hz: float) -> str:
    """A quarter of a second of a tone at 16 kHz."""
    time = np.arange(4000) / 16000
    samples = (8000 * np.sin(2 * np.pi * pitch_hz * time) * np.hanning(4000)).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16000)
        out.writeframes(samples.tobytes())
    return base64.b64encode(file.getvalue()).decode()


def measure(
    name: str, unit: str, score: float, half: float, n: int, gate: float | None, **other: Any
) -> dict[str, Any]:
    up = other.get("higher_is_better", True)
    bound = score - half if up else score + half
    passed = None if gate is None else bool(bound >= gate if up else bound <= gate)
    reason = f"{name}: {'lower' if up else 'upper'} bound {bound:.3f} of {score:.3f} (n={n}), wanted {gate}"
    return {
        "name": name,
        "unit": unit,
        "score": score,
        "low": score - half,
        "high": score + half,
        "n": n,
        "chance": 0.1,
        "floor": 0.35,
        "floors": {"nearest neighbour on pixels": 0.35},
        "ceiling": 1.0,
        "reference": "",
        "gate": gate,
        "passed": passed,
        "reason": reason if gate is not None else "not gated",
        "higher_is_better": True,
        "note": "",
        "rows": {},
        "exhibits": [],
        **other,
    }


def skills() -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)

    def shown(kind: str, what: str, caption: str, **other: Any) -> dict[str, Any]:
        return {"kind": kind, "caption": caption, "png": png(rng, what), "wav": None, **other}

    see = measure(
        "see",
        "correct",
        0.941,
        0.016,
        800,
        0.9,
        rows={"sight off": 0.102, "periphery off": 0.938},
        reference="0.93 for a small convolutional network trained on the same scenes",
        exhibits=[
            shown("example", "plain", "a ball; said ball (0.98)"),
            shown("failure", "plain", 'a "cup" & <b>bowl</b>; said plate (0.61)'),
        ],
    )
    box = measure(
        "see/box",
        "IoU",
        0.71,
        0.012,
        800,
        0.65,
        floor=0.22,
        floors={"mean box": 0.22, "largest blob": 0.19},
        chance=0.08,
        exhibits=[
            shown("example", "boxes", "green: where it is, red: where it was seen; IoU 0.78"),
            shown("failure", "boxes", "two balls touch; IoU 0.21"),
        ],
    )
    depth = measure(
        "see/depth",
        "metres of error",
        0.184,
        0.009,
        800,
        0.25,
        higher_is_better=False,
        chance=0.61,
        floor=0.42,
        ceiling=0.0,
        floors={"mean depth by row": 0.42},
        exhibits=[shown("example", "depth", "seen depth, near is bright")],
    )
    mask = measure(
        "see/mask", "IoU", 0.66, 0.014, 400, None, exhibits=[shown("example", "mask", "the seen ball's mask")]
    )
    mask["exhibits"].append(
        {
            "kind": "failure",
            "caption": "mean IoU 0.12",
            "png": strip(rng, ("boxes", "mask", "mask", "depth", "depth")),
            "wav": None,
            "labels": ["boxes found", "masks found", "masks true", "depth found", "depth true"],
        }
    )
    hear = measure(
        "hear",
        "correct",
        0.872,
        0.023,
        600,
        0.8,
        rows={"sound off": 0.098},
        note="a ridge read-out was fitted on frozen features, once per fold; speaker theo held out",
        reference="0.96 for MFCCs and a random forest on all speakers",
        floors={"MFCC nearest mean": 0.71, "loudness": 0.24},
        floor=0.71,
        exhibits=[
            shown("example", "plain", "a spoken seven; heard seven", png=None, wav=wav(440)),
            shown("failure", "plain", "a spoken nine; heard five (0.52)", png=None, wav=wav(220)),
        ],
    )
    orient = [
        measure(
            "orient/sight",
            "fraction of ticks",
            0.83,
            0.02,
            400,
            0.75,
            rows={"periphery off": 0.34},
            floor=0.985,
            floors={"chase the brightest place": 0.985, "stand still": 0.02},
            beaten_by="chase the brightest place",
        ),
        measure("orient/sound", "fraction of ticks", 0.702, 0.031, 400, 0.7, rows={"sound off": 0.12, "one ear": 0.33}),
    ]
    balance = measure(
        "balance", "reward", 487.3, 6.2, 400, 475.0, chance=22.1, floor=41.9, floors={"constant": 41.9}, ceiling=500.0
    )
    rows = [
        ("see", "names what is in sight, and says where and how far", [see, box, depth, mask]),
        ("hear", "tells spoken digits apart, of a speaker it never heard", [hear]),
        ("orient", "turns to what moves and to what sounds", orient),
        ("balance", "keeps a pole up", [balance]),
    ]
    return [
        {"skill": name, "about": about, "passed": all(m["passed"] is not False for m in ms), "measures": ms}
        for name, about, ms in rows
    ]


def curve(rng: np.random.Generator, n: int, start: float, end: float, noise: float) -> dict[str, list[float]]:
    step = np.linspace(1, 6000, n).round()
    value = end + (start - end) * np.exp(-step / 1400) + noise * rng.standard_normal(n) * (0.3 + np.exp(-step / 2000))
    return {"step": step.tolist(), "seconds": (step / 9.5 + 3 * (step > 3000)).tolist(), "value": value.tolist()}


def fake_results() -> dict[str, Any]:
    """A failed reflex stage of nursery size."""
    rng = np.random.default_rng(3)
    measured = skills()
    reasons = [m["reason"] for skill in measured for m in skill["measures"] if m["gate"] is not None]
    reasons.append("newborn/cry was not kept: -0.081")
    parts = {"trunk": 819_328, "encoders.sight": 141_072, "encoders.sound": 61_312, "encoders.periphery": 4_224}
    parts |= {"heads.name": 5_160, "heads.box": 18_052, "heads.look_arc": 8_834}
    return {
        "schema": 1,
        "stage": "reflex",
        "about": "Senses and reflexes: to see, to hear, to turn to what moves or sounds.",
        "verdict": {"passed": False, "reasons": reasons},
        "run": {
            "command": "devmind stage run reflex --size nursery --seed 3 --set exam.holdout=theo",
            "seed": 3,
            "size": "nursery",
            "started": "2026-03-01T13:20:11+00:00",
            "finished": "2026-03-01T13:47:52+00:00",
            "versions": {
                "python": "3.11.9",
                "devmind": "0.1.0",
                "torch": "2.13.0",
                "lightning": "2.6.4",
                "transformers": "5.20.1",
            },
            "commit": "c0ffee" * 6 + "c0ff",
            "threads": 2,
            "device": "cpu",
            "cores": 2,
            "gflops": [31.2],
            "changes": {"seed": [0, 3], "exam.holdout": [None, "theo"]},
            "agent_sha256": "9f2c" * 16,
            "parameters": sum(parts.values()),
            "started_from": "checkpoints/reflex-nursery-seed2/agent",
            "predecessor_failed": True,
            "interruptions": 1,
        },
        "lessons": [
            {
                "name": "watch",
                "steps": 6000,
                "done": 6000,
                "seconds": 634.2,
                "status": "done",
                "steps_per_s": 9.46,
                "share": {"data": 0.12, "encoders": 0.11, "trunk": 0.24, "heads": 0.05, "backward and the rest": 0.48},
            },
            {
                "name": "listen",
                "steps": 4000,
                "done": 4000,
                "seconds": 391.0,
                "status": "done",
                "steps_per_s": 10.2,
                "share": {"data": 0.31, "encoders": 0.14, "trunk": 0.13, "heads": 0.06, "backward and the rest": 0.36},
            },
            {
                "name": "move",
                "steps": 900,
                "done": 640,
                "seconds": 450.4,
                "status": "cut",
                "steps_per_s": 1.42,
                "share": {"data": 0.0, "encoders": 0.21, "trunk": 0.0, "heads": 0.11, "backward and the rest": 0.68},
            },
        ],
        "skills": measured,
        "retention": [
            {"skill": "newborn/breathe", "change": -0.004, "low": -0.013, "kept": True},
            {"skill": "newborn/cry", "change": -0.081, "low": -0.11, "kept": False},
        ],
        "matrix": {
            "stages": ["newborn", "reflex"],
            "skills": ["newborn/breathe", "newborn/cry", "reflex/see", "reflex/hear"],
            "rows": [[0.99, 0.84, None, None], [0.986, 0.759, 0.934, 0.858]],
        },
        "curves": {
            "watch/loss": curve(rng, 1200, 2.3, 0.21, 0.08),
            "watch/accuracy": curve(rng, 1200, 0.1, 0.95, 0.03),
            "listen/loss": curve(rng, 300, 2.4, 0.4, 0.1),
            "move/reward": curve(rng, 30, 20, 480, 14),
            "move/entropy": curve(rng, 30, 0.69, 0.11, 0.01),
        },
        "ablation": None,
        "cost": {
            "seconds": 1661.4,
            "peak_memory_mb": 1392.0,
            "parameters": sum(parts.values()),
            "parts": parts,
            "share": {
                "data": 0.118,
                "encoders": 0.132,
                "trunk": 0.122,
                "heads": 0.063,
                "backward and the rest": 0.453,
                "exams": 0.112,
            },
        },
        "arcs": {"look": {"look_arc": 8412, "trunk": 3120}, "move": {"balance_arc": 15021, "trunk": 97}},
        "trunk_moved": 0.317,
    }


@pytest.fixture
def results() -> dict[str, Any]:
    """A fresh copy that a test may change."""
    return fake_results()
