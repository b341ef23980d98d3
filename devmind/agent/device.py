"""The one place that knows which devices there are."""

from __future__ import annotations

import torch

from devmind.errors import ConfigError


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first GPU that works, else the CPU; any other name is a torch device.

    Raises:
        ConfigError: the name is no device, or the device is not there.
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


def trainer_device(device: torch.device) -> dict[str, object]:
    """Arguments of Lightning's Trainer for `device`."""
    kind = {"cuda": "gpu"}.get(device.type, device.type)
    return {"accelerator": kind, "devices": 1 if device.index is None or kind == "cpu" else [device.index]}
