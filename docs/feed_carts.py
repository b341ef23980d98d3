"""A simulator in a process of its own: carts with poles, pushed to a feed. It needs no torch.

python docs/feed_carts.py 127.0.0.1:4711 spool/token 2000
"""

import sys
from pathlib import Path

import gymnasium
import numpy as np

from devmind.feed import Client, Pushing

address, token, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
with Client(address, "carts", token=token, world="cartpole") as feed:
    carts = [Pushing(gymnasium.make("CartPole-v1"), feed, number) for number in range(8)]
    seen = [cart.reset(seed=number)[0] for number, cart in enumerate(carts)]
    for _ in range(steps):
        for number, cart in enumerate(carts):
            _, _, angle, turn = seen[number]
            clumsy = rng.random() < 0.7  # falls often, so there is something to learn from
            push = int(rng.integers(2)) if clumsy else int(angle + 0.3 * turn > 0)
            seen[number], _, terminated, truncated, _ = cart.step(push)
            if terminated or truncated:
                seen[number], _ = cart.reset()
    feed.flush()
    print(feed.status())
