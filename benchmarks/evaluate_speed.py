"""Positions per second of `Agent.evaluate`, against its bare modules: encoder, decoder and head called directly.

    python benchmarks/evaluate_speed.py [--size nursery] [--batch 64] [--seconds 20]

One thread. Both sides take turns and the ratio is of CPU seconds, so that other work on the machine affects neither.
The two answers are compared first. A board is 8 tokens here, like every board.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.threads import stepping_threads

BOARD = (2, 6, 7)
CLASSES = 7


def board_player(size: str) -> Agent:
    """An untaught agent that sees boards and has one head on its trunk."""
    agent = Agent(AgentConfig(size=size))
    agent.add_encoder("board")
    agent.add_head("choose", "head.categorical", options={"classes": CLASSES})
    return agent.eval()


def bare(agent: Agent) -> Callable[[Tensor], Tensor]:
    """The same modules, called as a custom script would: causal attention without a mask, positions 0 to 8."""
    encoder, head = agent.encoder("board"), agent.head("choose")

    @torch.no_grad()
    def logits(boards: Tensor) -> Tensor:
        tokens = encoder(boards).tokens + encoder.type_embedding
        tokens = torch.cat((tokens, agent.readout.expand(len(boards), 1, -1)), 1)
        features = agent.trunk.decoder(inputs_embeds=tokens, use_cache=False).last_hidden_state
        return head.read.net(features[:, -1])

    return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="nursery", help="the agent's size")
    parser.add_argument("--batch", type=int, default=64, help="positions per call")
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds in total")
    options = parser.parse_args()
    agent = board_player(options.size)
    generator = torch.Generator().manual_seed(0)
    boards = torch.randint(-1, 2, (options.batch, *BOARD), dtype=torch.int8, generator=generator)
    sides: dict[str, Callable[[Tensor], Tensor]] = {
        "evaluate": lambda x: agent.evaluate({"board": x}, ["choose"])["choose"].logits,
        "bare modules": bare(agent),
    }
    spent, calls = dict.fromkeys(sides, 0.0), 0
    with stepping_threads():
        answers = [side(boards) for side in sides.values()]
        torch.testing.assert_close(*answers, atol=1e-5, rtol=0)
        while sum(spent.values()) < options.seconds:
            for name, side in sides.items():
                start = time.process_time()
                side(boards)
                spent[name] += time.process_time() - start
            calls += 1
    for name, seconds in spent.items():
        print(f"{name:>12}: {calls * options.batch / seconds:8.0f} positions/s")
    ratio = spent["bare modules"] / spent["evaluate"]
    print(f"       ratio: {ratio:8.2f}  (batch {options.batch}, one thread, {calls} calls)")


if __name__ == "__main__":
    main()
