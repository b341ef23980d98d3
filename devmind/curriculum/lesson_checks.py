"""What a lesson may not give while it is taught: several numbers for one name, or an agent of NaN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from devmind.errors import ConfigError


def check_scalars(scalars: Mapping[str, Any]) -> None:
    """Check that a learner reports one number by name.

    Raises:
        ConfigError: a tensor has several.
    """
    for name, value in scalars.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ConfigError(
                f"A learner reports one number by name; '{name}' has shape {list(value.shape)}. Report its mean."
            )


def check_finite(agent: nn.Module, lesson: str, done: int, steps: int) -> None:
    """Check the agent before it is saved after `done` of `steps` steps: NaN would stay, and spread.

    Raises:
        ConfigError: a number is NaN or infinite.
    """
    numbers = ((name, value) for name, value in agent.state_dict().items() if value.is_floating_point())
    if broken := [name for name, value in numbers if not bool(value.isfinite().all())]:
        raise ConfigError(
            f"The lesson '{lesson}' has made NaN or infinite numbers of {', '.join(broken[:3])} by step {done:,} of "
            f"{steps:,}, which was not saved. Lower its learning rate (lessons.{lesson}.learning_rate), or mend its "
            "loss."
        )
