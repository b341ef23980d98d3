"""The nursery against MuJoCo's offscreen renderer, in one run: python benchmarks/nursery_speed.py

Ours: full ticks (dynamics, 64x64 picture, depth, mask, wide view, periphery, stereo sound, body) at N = 64 on one
thread. MuJoCo: the 64x64 picture alone of a like room (six textured planes, six bodies; shadows, multisampling,
reflections and skybox off), on the faster of its offscreen backends that work here. Both per CPU-second.

Our first call compiles and is not timed. MuJoCo is the extra `bench`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time

SECONDS = 4.0
ROUNDS = 5
CHILDREN = 64
BACKENDS = ("egl", "osmesa")
MUJOCO_ROOM = """
<mujoco>
  <visual>
    <quality shadowsize="0" offsamples="0"/><global offwidth="64" offheight="64" fovy="60"/>
    <headlight ambient=".4 .4 .4" diffuse=".6 .6 .6"/>
  </visual>
  <asset>
    <texture name="checks" type="2d" builtin="checker" rgb1=".6 .6 .5" rgb2=".5 .5 .4" width="64" height="64"/>
    <material name="wall" texture="checks" texrepeat="4 4" reflectance="0"/>
  </asset>
  <worldbody>
    <geom type="plane" size="3 3 .1" pos="0 0 -.8" material="wall"/>
    <geom type="plane" size="3 3 .1" pos="0 0 2.2" zaxis="0 0 -1" material="wall"/>
    <geom type="plane" size="3 3 .1" pos="3 0 .7" zaxis="-1 0 0" material="wall"/>
    <geom type="plane" size="3 3 .1" pos="-3 0 .7" zaxis="1 0 0" material="wall"/>
    <geom type="plane" size="3 3 .1" pos="0 3 .7" zaxis="0 -1 0" material="wall"/>
    <geom type="plane" size="3 3 .1" pos="0 -3 .7" zaxis="0 1 0" material="wall"/>
    <geom type="sphere" size=".15" pos="1.5 .3 .1" rgba=".8 .1 .1 1"/>
    <geom type="sphere" size=".12" pos="1.8 -.4 .2" rgba=".1 .7 .2 1"/>
    <geom type="box" size=".15 .15 .15" pos="2 .1 -.3" rgba=".1 .3 .9 1"/>
    <geom type="box" size=".12 .12 .12" pos="1.4 -.5 -.3" rgba=".9 .8 .1 1"/>
    <geom type="cylinder" size=".12 .12" pos="1.7 .6 -.2" rgba=".8 .2 .8 1"/>
    <geom type="cylinder" size=".15 .15" pos="2.2 -.8 .1" rgba=".2 .8 .8 1"/>
    <camera name="eye" pos="0 0 0" xyaxes="0 -1 0 0 0 1"/>
  </worldbody>
</mujoco>
"""


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


def mujoco_frames_per_s() -> float:
    """Pictures per CPU-second on the backend named by MUJOCO_GL, the camera moving a little each frame."""
    import mujoco
    import numpy as np

    model = mujoco.MjModel.from_xml_string(MUJOCO_ROOM)
    data = mujoco.MjData(model)
    rates = []
    with mujoco.Renderer(model, 64, 64) as renderer:
        for flag in (
            mujoco.mjtRndFlag.mjRND_SHADOW,
            mujoco.mjtRndFlag.mjRND_REFLECTION,
            mujoco.mjtRndFlag.mjRND_SKYBOX,
        ):
            renderer.scene.flags[flag] = False
        picture = np.empty((64, 64, 3), np.uint8)
        for _ in range(ROUNDS):
            frames, start = 0, time.process_time()
            while time.process_time() - start < SECONDS / ROUNDS:
                model.cam_pos[0, 0] = 0.02 * np.sin(frames / 10)
                mujoco.mj_kinematics(model, data)
                mujoco.mj_camlight(model, data)
                renderer.update_scene(data, "eye")
                renderer.render(out=picture)
                frames += 1
            rates.append(frames / (time.process_time() - start))
        if len(np.unique(picture)) < 16:
            raise RuntimeError("MuJoCo rendered an empty picture; this backend does not work here.")
    return float(np.median(rates))


def main() -> int:
    """Print both figures and their ratio."""
    if sys.argv[1:] == ["--mujoco"]:
        print(mujoco_frames_per_s())
        return 0
    ours = nursery_ticks_per_s()
    print(f"nursery, full ticks, N = {CHILDREN}, one thread: {ours:,.0f} per CPU-s (median of {ROUNDS})")
    if importlib.util.find_spec("mujoco") is None:
        print("mujoco is not installed: install the extra 'bench' to see the ratio.")
        return 0
    rates = {}
    for backend in BACKENDS:
        # Its own process, because the backend is chosen at import; threads at one, as ours.
        env = dict(os.environ, MUJOCO_GL=backend, PYOPENGL_PLATFORM=backend, OMP_NUM_THREADS="1", LP_NUM_THREADS="0")
        run = subprocess.run(
            [sys.executable, __file__, "--mujoco"], env=env, capture_output=True, text=True, check=False
        )
        if run.returncode == 0:
            rates[backend] = float(run.stdout.strip().splitlines()[-1])
            print(f"MuJoCo, picture alone, {backend}: {rates[backend]:,.0f} per CPU-s (median of {ROUNDS})")
        else:
            print(f"MuJoCo, {backend}: does not work here ({(run.stderr.strip().splitlines() or ['no message'])[-1]}).")
    if not rates:
        print("No offscreen backend of MuJoCo works here: install libegl1 or libosmesa6.")
        return 0
    print(f"ratio to its best: {ours / max(rates.values()):.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
