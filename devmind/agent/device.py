"""The choice of devices; no other module names one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.agent.agent import Agent


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first GPU that works, else the CPU; any other name is a torch device.

    Raises:
        ConfigError: the name is not a device, or the device is not available.
    """
    gpu = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None
    if name == "auto":
        return torch.device(gpu or "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"There is no device '{name}' here ({str(error).splitlines()[0]}); use 'auto' or 'cpu'."
        ) from None
    return device


def place(agent: Agent, device: torch.device | str) -> Agent:
    """The agent on `device`; transformers' own `to` is typed for its quantised models only."""
    nn.Module.to(agent, device)
    return agent


def wait_for(device: torch.device | str) -> None:
    """Wait until `device` has finished its queued work, since an accelerator runs asynchronously."""
    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize(torch.device(device))


def trainer_device(device: torch.device) -> dict[str, object]:
    """Arguments of Lightning's Trainer for `device`."""
    kind = device.type if device.type in ("cpu", "mps") else "gpu"
    return {"accelerator": kind, "devices": 1 if device.index is None or kind == "cpu" else [device.index]}
