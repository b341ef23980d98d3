"""What the trunk adds in reflex, on a raised agent: beside its twin on an identity trunk, taught equally long.

    OMP_NUM_THREADS=1 python benchmarks/trunk_twin.py [--agent newborn] [--seed 0] [--device cuda] [--out FILE.json]

The twin is the one that `devmind stage run reflex --ablate` raises: the agent with an identity trunk that does not
learn, whose heads on it start anew and are taught the lesson `together` with as many steps. Both are examined on the
same episodes; beside each measure stands the agent's gain, paired, with its 95 % interval (bootstrap). The skills whose
gates read the twin come first.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import pick_device, place
from devmind.agent.threads import training_threads
from devmind.config import load
from devmind.curriculum.ablation import Control, differences, identity_trunk
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.journal import Journal
from devmind.curriculum.start import make_context
from devmind.curriculum.teaching import teach
from devmind.raised import raised
from stages.reflex.stage import ReflexStage

ASKED = ("bind", "foresee", "orient", "startle", "track", "reach", "see", "hear")


def main() -> None:
    """Teach the twin, and examine both skill by skill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="newborn", help="a folder, or the name of a packaged agent")
    parser.add_argument("--seed", type=int, default=0, help="seed of its run")
    parser.add_argument("--steps", type=int, help="steps of the lesson; default: its own")
    parser.add_argument("--skills", nargs="+", default=list(ASKED), choices=ASKED)
    parser.add_argument(
        "--level", default="retention", choices=("full", "retention", "glimpse"), help="level of the exams"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.json", help="file for the values of all episodes, written as they come"
    )
    asked = parser.parse_args()
    device, stage = pick_device(asked.device), ReflexStage()
    found = Agent.from_pretrained(raised().get(asked.agent, Path(asked.agent))).float()
    size = found.config.size
    with tempfile.TemporaryDirectory() as out, training_threads(1):
        config = load(size, {"seed": asked.seed, "device": asked.device})
        config = config.model_copy(update={"loggers": (), "checkpoint_every_s": 1e9})
        context = make_context(config, Path(out), None, ())
        begun, agent = (newborn(size, asked.seed) for _ in range(2))
        agent.load_state_dict(found.state_dict(), strict=False)  # packaged agents have no critics
        place(agent.eval(), device)
        begun_s = time.monotonic()
        twin = Agent.from_pretrained(identity_trunk(agent, Path(out, "twin"), place(begun, device), stage, context))
        (together,) = Control(stage).lessons(context)
        taught = teach(
            together, asked.steps or together.steps, place(twin, device), context, Journal(Path(out, "journal.jsonl"))
        )
        print(f"the twin was taught {taught.steps} steps in {time.monotonic() - begun_s:.0f} s", flush=True)
        place(twin, device).eval()
        kept: dict[str, dict[str, list[float]]] = {}
        for skill in sorted(
            (one for one in stage.skills if one.name in asked.skills), key=lambda s: ASKED.index(s.name)
        ):
            twins, own = (examine_skill(stage, skill, one, context, asked.level).measures for one in (twin, agent))
            print_beside(own, twins)
            kept |= {
                name: {"agent": own[name].values.tolist(), "twin": twins[name].values.tolist()}
                for name in own
                if name in twins
            }
            if asked.out is not None:
                asked.out.write_text(json.dumps(kept), encoding="utf-8")


def newborn(size: str, seed: int) -> Agent:
    """An agent at the start of a run of reflex."""
    agent = Agent(AgentConfig(size=size, seed=seed))
    ReflexStage().admit(agent)
    agent.config.stages = [ReflexStage.name]
    return agent


def print_beside(own: dict[str, Measure], twin: dict[str, Measure]) -> None:
    """Print a line for each measure."""
    for name, by in differences(own, twin, 2000).items():
        (low, high), (below, above) = own[name].interval(), twin[name].interval()
        print(
            f"{name:36} n {by['n']:5} agent {own[name].score:.3f} [{low:.3f}, {high:.3f}] "
            f"twin {twin[name].score:.3f} [{below:.3f}, {above:.3f}] "
            f"better by {by['gained']:+.3f} [{by['low']:+.3f}, {by['high']:+.3f}]",
            flush=True,
        )


if __name__ == "__main__":
    main()
