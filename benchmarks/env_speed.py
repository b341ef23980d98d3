"""How fast worlds step: the nursery against MuJoCo's offscreen renderer, in one run.

    OMP_NUM_THREADS=1 python benchmarks/env_speed.py [--children 64] [--seconds 4]

Ours are full ticks (dynamics, 64x64 picture, depth, mask, wide view, periphery, stereo sound, body) on one thread.
MuJoCo: the 64x64 picture alone of the same rooms (textured planes, objects, caregiver, hand; shadows, multisampling,
reflections and skybox off), and with depth and segmentation, which our tick includes; on the faster of its working
offscreen backends. All figures are per CPU-second. MuJoCo draws planes as grids: at a spacing of 0.05 m instead of one
cell it is three to four times slower, so its figure depends much on the model; ours is its best case.

Our first call compiles and is not timed. MuJoCo is in the extra `bench`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from typing import Any

import numba
import numpy as np

from devmind.worlds.nursery import NurseryRules
from devmind.worlds.nursery.geometry import camera_axes
from devmind.worlds.nursery.views import scene

ROUNDS = 5
BACKENDS = ("egl", "osmesa")
ROOMS = 4
"""Rooms of ours that are rebuilt in MuJoCo."""
GEOMS = {1: "sphere", 2: "box", 3: "cylinder"}


def room_as_mjcf(state: Any, child: int) -> str:
    """The room of one child as a MuJoCo model: six chequered planes, all bodies with their textures, the head's camera.
    Planes have no grid of subdivisions, which makes them several times faster for MuJoCo than its common settings.
    """
    geoms = [
        f'<geom type="plane" size="3 3 6" pos="{pos}" zaxis="{normal}" material="wall"/>'
        for pos, normal in (
            ("0 0 -.8", "0 0 1"),
            ("0 0 2.2", "0 0 -1"),
            ("3 0 .7", "-1 0 0"),
            ("-3 0 .7", "1 0 0"),
            ("0 3 .7", "0 -1 0"),
            ("0 -3 .7", "0 1 0"),
        )
    ]
    for kind, _, x, y, z, sx, sy, sz, cos, sin, red, green, blue, texture in scene(state, state.position)[
        child
    ].tolist():
        if kind:
            size = {1: f"{sx}", 2: f"{sx} {sy} {sz}", 3: f"{sx} {sz}"}[int(kind)]
            colour = f"{red / 255} {green / 255} {blue / 255} 1"
            material = 'material="body"' if texture else ""
            turn = f"0 0 {np.degrees(np.arctan2(sin, cos))}"
            place = f'pos="{x} {y} {z}" euler="{turn}" size="{size}"'
            geoms.append(f'<geom type="{GEOMS[int(kind)]}" {place} rgba="{colour}" {material}/>')
    _, left, up = camera_axes(state.pan[child : child + 1], state.tilt[child : child + 1])
    axes = " ".join(str(v) for v in (*-left[0], *up[0]))
    return f"""
    <mujoco>
      <visual>
        <quality shadowsize="0" offsamples="0"/><global offwidth="64" offheight="64"/>
        <headlight ambient=".4 .4 .4" diffuse=".6 .6 .6"/>
      </visual>
      <asset>
        <texture name="wall" type="2d" builtin="checker" rgb1=".6 .6 .5" rgb2=".5 .5 .4" width="64" height="64"/>
        <texture name="body" type="cube" builtin="checker" rgb1="1 1 1" rgb2=".6 .6 .6" width="64" height="64"/>
        <material name="wall" texture="wall" texrepeat="4 4" reflectance="0"/>
        <material name="body" texture="body"/>
      </asset>
      <worldbody>{"".join(geoms)}<camera name="eye" pos="0 0 0" fovy="60" xyaxes="{axes}"/></worldbody>
    </mujoco>"""


def nursery_ticks_per_s(children: int, seconds: float) -> float:
    """Full ticks per CPU-second, the median of several rounds."""
    numba.set_num_threads(1)
    rules = NurseryRules("room")
    rng = np.random.default_rng(0)
    rates = []
    for batch in range(ROUNDS + 1):
        state = rules.initial(np.arange(children) + children * batch)
        ticks, start = 0, time.process_time()
        while ticks < rules.horizon or (batch > 0 and time.process_time() - start < seconds / ROUNDS):
            look, reach = rng.uniform(-1, 1, (children, 2)), rng.uniform(-1, 1, (children, 4))
            state = rules.step(state, {"look": look, "reach": reach})
            rules.observe(state)
            ticks += 1
        if batch > 0:  # the first one compiles
            rates.append(ticks * children / (time.process_time() - start))
    return float(np.median(rates))


def mujoco_frames_per_s(seconds: float) -> tuple[float, float]:
    """Frames per CPU-second on the backend of MUJOCO_GL, medians over rooms: picture alone; with depth and
    segmentation.
    """
    import mujoco

    state = NurseryRules("room").initial(np.arange(ROOMS) + 64)
    rates = []
    for child in range(ROOMS):
        model = mujoco.MjModel.from_xml_string(room_as_mjcf(state, child))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        with mujoco.Renderer(model, 64, 64) as renderer:
            rates.append(
                [_renders_per_s(renderer, data, everything, seconds / ROOMS / 2) for everything in (False, True)]
            )
    alone, everything = np.median(rates, axis=0).tolist()
    return alone, everything


def _renders_per_s(renderer: Any, data: Any, everything: bool, seconds: float) -> float:
    import mujoco

    picture = np.empty((64, 64, 3), np.uint8)
    frames, start = -10, time.process_time()
    while frames < 0 or time.process_time() - start < seconds:
        renderer.update_scene(data, "eye")
        for flag in ("SHADOW", "REFLECTION", "SKYBOX"):
            renderer.scene.flags[getattr(mujoco.mjtRndFlag, f"mjRND_{flag}")] = False
        renderer.render(out=picture)
        if everything:
            renderer.enable_depth_rendering()
            renderer.render()
            renderer.disable_depth_rendering()
            renderer.enable_segmentation_rendering()
            renderer.render()
            renderer.disable_segmentation_rendering()
        frames += 1
        if frames == 0:  # the first ten warm up
            start = time.process_time()
    if len(np.unique(picture)) < 16:
        raise RuntimeError("MuJoCo rendered an empty picture; this backend does not work here.")
    return frames / (time.process_time() - start)


def beside(asked: argparse.Namespace) -> None:
    """Print our ticks and MuJoCo's pictures per CPU-second, and the ratios."""
    ours = nursery_ticks_per_s(asked.children, asked.seconds)
    print(f"full ticks, N = {asked.children}, one thread: {ours:,.0f} per CPU-s (median of {ROUNDS})", flush=True)
    if importlib.util.find_spec("mujoco") is None:
        print("mujoco is not installed: install the extra 'bench' to see the ratio.")
        return
    rates = []
    for backend in BACKENDS:
        # A separate process, because the backend is chosen at import; LP_NUM_THREADS=0 is its fastest per CPU-second.
        env = dict(os.environ, MUJOCO_GL=backend, PYOPENGL_PLATFORM=backend, OMP_NUM_THREADS="1", LP_NUM_THREADS="0")
        words = [sys.executable, __file__, "--mujoco", "--seconds", str(asked.seconds)]
        run = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            alone, everything = map(float, run.stdout.split()[-2:])
            rates.append((alone, everything))
            print(f"MuJoCo, {backend}: picture alone {alone:,.0f}, with depth and mask {everything:,.0f} per CPU-s")
        else:
            print(f"MuJoCo, {backend}: does not work here ({(run.stderr.strip().splitlines() or ['no message'])[-1]}).")
    if not rates:
        print("No offscreen backend of MuJoCo works here: install libegl1 or libosmesa6.")
        return
    for theirs, what in zip(zip(*rates, strict=True), ("picture alone", "picture, depth and mask"), strict=True):
        print(f"our full tick against its {what}: {ours / max(theirs):.1f} times as fast")


def main() -> None:
    """Measure; in a process of its own MuJoCo alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--children", type=int, default=64, help="rows of the nursery")
    parser.add_argument("--mujoco", action="store_true", help="MuJoCo's two figures alone, on the backend of MUJOCO_GL")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs")
    asked = parser.parse_args()
    if asked.tiny:
        asked.seconds, asked.children = 0.1, 2
    if asked.mujoco:
        print(*mujoco_frames_per_s(asked.seconds))
    else:
        beside(asked)


if __name__ == "__main__":
    main()
