"""Make the newborn of a raised agent: `python -m devmind.live.newborn.pack RUN/milestones/01-reflex`.

Critics are left out, since nobody rewards it, and weights are kept in half precision: less than 7 MB.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

from devmind.agent.agent import Agent
from devmind.errors import CheckpointError
from devmind.live.newborn import FOLDER

LARGEST_BYTES = 7_000_000
BUNDLED = "pictures:scikit-learn digits"
"""The one set of pictures that the stage `reflex` sees without --data; it comes with a library."""


def packed(agent: Agent) -> Agent:
    """A copy of `agent` in half precision, without critics, which only learning needs."""
    config = copy.deepcopy(agent.config)
    config.heads = [head for head in config.heads if not agent.head(head["name"]).critic]
    config.encoders = list(config.encoders)
    small = Agent(config)
    kept = small.state_dict()
    small.load_state_dict({name: value for name, value in agent.state_dict().items() if name in kept})
    return small.half().eval()


def pack(source: Path, out: Path = FOLDER) -> int:
    """Write the newborn made of the agent in `source` to `out`; gives its bytes.

    Raises:
        CheckpointError: `source` holds no agent, it learned from recordings, or it is too large.
    """
    agent = Agent.from_pretrained(source)
    others = [group for group in agent.config.trained_on if not group.startswith(BUNDLED)]
    if others:
        raise CheckpointError(
            f"The newborn learns from nobody's recordings, and '{source}' learned from {', '.join(others[:3])}; "
            "raise one without --data and --experience."
        )
    packed(agent).save_pretrained(out)
    size = sum(path.stat().st_size for path in out.iterdir())
    if size > LARGEST_BYTES:
        raise CheckpointError(f"The newborn has {size:,} bytes, {LARGEST_BYTES:,} are allowed; pack a smaller agent.")
    return size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agent", type=Path, help="a milestone of a run without recordings")
    print(f"{FOLDER}: {pack(parser.parse_args().agent):,} bytes")
