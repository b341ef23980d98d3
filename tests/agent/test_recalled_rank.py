"""The rank of recalled entries: another order says something else; folders from before there were ranks still load."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from devmind.agent import Agent
from devmind.agent.batch import collate_recalled
from devmind.agent.saving import CHECKSUMS, LATER, WEIGHTS


def entries(order: tuple[int, ...]) -> dict:
    return collate_recalled([[({"words": f"thing {number}"}, 60.0) for number in order]])


def test_what_fits_best_is_told_by_its_rank(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("words",))
    one, other = (agent.encode_recalled(entries(order)).tokens[0] for order in ((0, 1, 2), (2, 1, 0)))
    ranks = agent.recalled_rank[:3]
    torch.testing.assert_close(one - ranks, (other - ranks).flip(0))
    assert not torch.allclose(one, other.flip(0))


def test_a_folder_from_before_there_were_ranks_answers_as_it_did(
    small_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = small_agent(senses=("words",))
    agent.save_pretrained(tmp_path)
    kept = {name: value for name, value in load_file(tmp_path / WEIGHTS).items() if name not in LATER}
    save_file(kept, tmp_path / WEIGHTS, metadata={"format": "pt"})
    sums = json.loads((tmp_path / CHECKSUMS).read_text())
    sums["files"][WEIGHTS]["sha256"] = hashlib.sha256((tmp_path / WEIGHTS).read_bytes()).hexdigest()
    (tmp_path / CHECKSUMS).write_text(json.dumps(sums))
    old = Agent.from_pretrained(tmp_path)
    assert not old.recalled_rank.any()
    found = old.encode_recalled(entries((0, 1))).tokens
    torch.testing.assert_close(found, agent.encode_recalled(entries((0, 1))).tokens - agent.recalled_rank[:2])
