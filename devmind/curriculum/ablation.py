"""The fresh-trunk twin: the same parts, lessons and steps, its trunk as new; it shows what staging bought."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devmind.agent.agent import Agent


def fresh_trunk(start: Path, out: Path) -> Path:
    """Save the agent in `start` with a newborn's trunk in `out`, which is given back."""
    agent = Agent.from_pretrained(start)
    twin = Agent(agent.config)
    kept = {name: value for name, value in agent.state_dict().items() if not name.startswith("trunk.")}
    twin.load_state_dict(kept, strict=False)
    twin.save_pretrained(out)
    return out


def compared(results: Path) -> dict[str, Any]:
    """What the report shows of a twin, out of its `results.json`."""
    told = json.loads(results.read_text(encoding="utf-8"))
    scores = {measure["name"]: measure["score"] for skill in told["skills"] for measure in skill["measures"]}
    return {"skills": scores, "note": "the same lessons and steps on a fresh trunk"}
