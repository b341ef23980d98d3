"""How a plan is drawn: `devmind plan maze --set KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from devmind.config import Section, put_sets, validate_as


class PlanConfig(Section):
    """A plan through a maze; what is None is as the agent learned it."""

    start: str | None = Field(None, description="where it begins: X,Y or a task; None: the start of the goal's task")
    steps: int | None = Field(None, ge=1, description="denoising steps; None: those of the agent")
    horizon: int | None = Field(None, ge=2, description="points of a plan; None: as many as learned")
    guidance: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="weight of start, goal and maze in denoising (classifier-free guidance); 1 as taught",
    )
    waypoints: Mapping[str, str] = Field(
        default_factory=dict, description="given points X,Y of the first plan, by their number"
    )
    symbols: str | None = Field(
        None, description="given moves of the first plan, one a stride, such as east,on,?,south; ? leaves a move open"
    )

    @property
    def of_one_plan(self) -> bool:
        """Whether a key is set that holds for one plan only."""
        return bool(self.waypoints or self.symbols or self.steps or self.horizon)


def plan_config(sets: Sequence[str]) -> PlanConfig:
    """The configuration of a plan from `key=value` texts.

    Raises:
        ConfigError: a key is unknown, or a value does not fit.
    """
    values: dict[str, Any] = {}
    put_sets(values, sets)
    return validate_as(PlanConfig, values)
