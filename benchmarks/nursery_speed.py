"""The nursery against MuJoCo's offscreen renderer, in one run: python benchmarks/nursery_speed.py

Ours: full ticks (dynamics, 64x64 picture, depth, mask, wide view, periphery, stereo sound, body) at N = 64 on one
thread. MuJoCo: the 64x64 picture alone of the same rooms (textured planes, objects, caregiver, hand; shadows,
multisampling, reflections and skybox off), and with depth and segmentation, which our tick includes; on the faster of
its working offscreen backends. All figures are per CPU-second. MuJoCo draws planes as grids: at a spacing of 0.05 m
instead of one cell it is three to four times slower, so its figure depends much on the model; ours is its best case.

Our first call compiles and is not timed. MuJoCo is in the extra `bench`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from typing import Any

SECONDS = 4.0
ROUNDS = 5
CHILDREN = 64
BACKENDS = ("egl", "osmesa")
ROOMS = 4  # of ours, rebuilt in MuJoCo
GEOMS = {1: "sphere", 2: "box", 3: "cylinder"}


def room_as_mjcf(state: Any, child: int) -> str:
    """The room of one child as a MuJoCo model: six chequered planes, all bodies with their textures, the head's camera.
    Planes have no grid of subdivisions, which makes them several times faster for MuJoCo than its common settings.
    """
    import numpy as np

    from devmind.worlds.nursery.geometry import camera_axes
    from devmind.worlds.nursery.views import scene

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


def nursery_ticks_per_s() -> float:
    """Full ticks per CPU-second, the median of several rounds."""
    import numba
    import numpy as np

    from devmind.worlds.nursery import NurseryRules

    numba.set_num_threads(1)
    rules = NurseryRules("room")
    rng = np.random.default_rng(0)
    rates = []
    for batch in range(ROUNDS + 1):
        state = rules.initial(np.arange(CHILDREN) + CHILDREN * batch)
        ticks, start = 0, time.process_time()
        while ticks < rules.horizon or (batch > 0 and time.process_time() - start < SECONDS / ROUNDS):
            look, reach = rng.uniform(-1, 1, (CHILDREN, 2)), rng.uniform(-1, 1, (CHILDREN, 4))
            state = rules.step(state, {"look": look, "reach": reach})
            rules.observe(state)
            ticks += 1
        if batch > 0:  # the first one compiles
            rates.append(ticks * CHILDREN / (time.process_time() - start))
    return float(np.median(rates))


def mujoco_frames_per_s() -> tuple[float, float]:
    """Frames per CPU-second on the backend of MUJOCO_GL, medians over rooms: picture alone; with depth and
    segmentation.
    """
    import mujoco
    import numpy as np

    from devmind.worlds.nursery import NurseryRules

    state = NurseryRules("room").initial(np.arange(ROOMS) + CHILDREN)
    rates = []
    for child in range(ROOMS):
        model = mujoco.MjModel.from_xml_string(room_as_mjcf(state, child))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        with mujoco.Renderer(model, 64, 64) as renderer:
            rates.append([_renders_per_s(renderer, data, everything) for everything in (False, True)])
    alone, everything = np.median(rates, axis=0).tolist()
    return alone, everything


def _renders_per_s(renderer: Any, data: Any, everything: bool) -> float:
    import mujoco
    import numpy as np

    picture = np.empty((64, 64, 3), np.uint8)
    frames, start = -10, time.process_time()
    while frames < 0 or time.process_time() - start < SECONDS / ROOMS / 2:
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


def main() -> int:
    """Print the figures and their ratios."""
    if sys.argv[1:] == ["--mujoco"]:
        print(*mujoco_frames_per_s())
        return 0
    ours = nursery_ticks_per_s()
    print(f"nursery, full ticks, N = {CHILDREN}, one thread: {ours:,.0f} per CPU-s (median of {ROUNDS})")
    if importlib.util.find_spec("mujoco") is None:
        print("mujoco is not installed: install the extra 'bench' to see the ratio.")
        return 0
    rates = {}
    for backend in BACKENDS:
        # A separate process, because the backend is chosen at import; LP_NUM_THREADS=0 is its fastest per CPU-second.
        env = dict(os.environ, MUJOCO_GL=backend, PYOPENGL_PLATFORM=backend, OMP_NUM_THREADS="1", LP_NUM_THREADS="0")
        run = subprocess.run(
            [sys.executable, __file__, "--mujoco"], env=env, capture_output=True, text=True, check=False
        )
        if run.returncode == 0:
            alone, everything = rates[backend] = tuple(map(float, run.stdout.split()[-2:]))
            print(f"MuJoCo, {backend}: picture alone {alone:,.0f}, with depth and mask {everything:,.0f} per CPU-s")
        else:
            print(f"MuJoCo, {backend}: does not work here ({(run.stderr.strip().splitlines() or ['no message'])[-1]}).")
    if not rates:
        print("No offscreen backend of MuJoCo works here: install libegl1 or libosmesa6.")
        return 0
    for k, what in enumerate(("its picture alone", "its picture, depth and mask")):
        print(f"our full tick against {what}: {ours / max(rate[k] for rate in rates.values()):.1f} times as fast")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
