"""To trade a market on paper."""

from devmind.errors import ConfigError

HORIZON = 16
"""Ticks of a plan: one point and one symbol each."""


def refuse_horizon(ticks: int | None) -> None:
    """Before anything is planned.

    Raises:
        ConfigError: plans of so many ticks were not taught.
    """
    if ticks is not None and ticks != HORIZON:
        raise ConfigError(
            f"Plans of trades were taught for {HORIZON} ticks, no longer and no shorter ones; got a horizon of {ticks}."
            " What lies further ahead is planned when the next plan is made."
        )
