"""A study's file: its arms, comparisons and outcomes, all fixed before the first run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from devmind import bounds
from devmind.config import RunConfig, Section, validate, validate_as
from devmind.errors import ConfigError, nearest

FOLDER = "studies"
"""Folder of the studies that come with devmind, among the configurations."""
Fresh = Literal["trunk", "encoders"]


class StageBudget(Section):
    """How much of a stage a study teaches; the same in every arm."""

    steps: float = Field(1.0, gt=0, allow_inf_nan=False, description="factor on the steps of its lessons")
    lessons: Mapping[str, int | None] | None = Field(
        None, description="these lessons only, in their stage's order, each with its steps (empty: its own)"
    )


class Arm(Section):
    """One way to raise an agent."""

    walk: tuple[str | tuple[str, ...], ...] = Field(
        min_length=1, description="stages one after another; a list of several is taught as one, in rounds"
    )
    fresh: tuple[Fresh, ...] = Field((), description="parts that are replaced by a newborn's before the last stage")
    steps: Literal["own", "all"] = Field(
        "own", description="'all': the last stage has as many steps as all stages of the study together"
    )
    rounds: int = Field(4, ge=1, description="rounds of the lessons of stages that are taught as one")
    rehearse: bool = Field(True, description="whether the last stage rehearses those before it")


class Comparison(Section):
    """The first arm against the second."""

    arms: tuple[str, str]
    outcome: str = Field(description="a measure of a stage's exam, as reports name it")


class StudyFile(Section):
    """Everything that defines a study, except its seeds."""

    question: str = Field(min_length=1, description="the question, as a sentence")
    config: Mapping[str, Any] = Field(default_factory=dict, description="configuration keys of every run, but the seed")
    stages: Mapping[str, StageBudget] = Field(min_length=1, description="the stages that arms may walk")
    arms: Mapping[str, Arm] = Field(min_length=2)
    primary: Comparison
    secondary: tuple[Comparison, ...] = ()
    alpha: float = Field(0.05, gt=0, lt=1, description="accepted rate of false positives")
    power: float = Field(0.8, gt=0, lt=1, description="power that defines the smallest detectable difference")

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The primary one first."""
        return (self.primary, *self.secondary)


@dataclass(frozen=True)
class Study:
    """A study's file, read.

    Attributes:
        name: the file's name without its suffix.
        sha256: SHA-256 of the file's bytes.
        config: the configuration of every run, with seed 0.
    """

    name: str
    text: str
    sha256: str
    file: StudyFile
    config: RunConfig


def load_study(path: Path | str) -> Study:
    """Read the study in a file, or the packaged study of that name.

    Raises:
        ConfigError: there is none, it is not readable, or it contradicts itself.
    """
    path = find(str(path))
    data = bounds.read_file(path, ConfigError)
    text = bounds.read_text(path, ConfigError)
    values = bounds.parse_yaml(text, ConfigError, f"The study '{path}' is not readable YAML: {{}}. Correct it.")
    if not isinstance(values, dict):
        raise ConfigError(f"The study '{path}' must hold keys and values; got {type(values).__name__}.")
    file = validate_as(StudyFile, values)
    _check(file)
    return Study(path.stem, text, hashlib.sha256(data).hexdigest(), file, _config(file))


def find(name: str) -> Path:
    """The file `name`, else the packaged study of that name.

    Raises:
        ConfigError: there is neither.
    """
    if Path(name).is_file():
        return Path(name)
    package = Path(__file__).parent.parent.parent
    folders = (package / "configs" / FOLDER, package.parent / "configs" / FOLDER)
    known = {path.stem: path for folder in folders for path in folder.glob("*.yaml")}
    if name in known:
        return known[name]
    raise ConfigError(
        f"There is no study '{name}', neither a file nor one that comes with devmind{nearest(name, known)}"
    )


def _check(file: StudyFile) -> None:
    for name, arm in file.arms.items():
        walked = [stage for leg in arm.walk for stage in ((leg,) if isinstance(leg, str) else leg)]
        for stage in walked:
            if stage not in file.stages:
                raise ConfigError(f"The arm '{name}' walks '{stage}', which is not under `stages`{_near(stage, file)}")
        if len(set(walked)) < len(walked):
            raise ConfigError(f"The arm '{name}' walks a stage twice: {', '.join(walked)}; name each once.")
        if arm.fresh and len(arm.walk) < 2:
            raise ConfigError(
                f"The arm '{name}' has fresh {' and '.join(arm.fresh)} before its only stage, where all is fresh; "
                "leave `fresh` out, or walk another stage before it."
            )
    for comparison in file.comparisons:
        for arm_ in comparison.arms:
            if arm_ not in file.arms:
                raise ConfigError(f"A comparison names the arm '{arm_}', but there is none{nearest(arm_, file.arms)}")
        if comparison.arms[0] == comparison.arms[1]:
            raise ConfigError(f"A comparison compares the arm '{comparison.arms[0]}' with itself; name two arms.")


def _near(stage: str, file: StudyFile) -> str:
    return nearest(stage, file.stages)


def _config(file: StudyFile) -> RunConfig:
    for key, instead in {
        "seed": "give --seeds",
        "minutes": "give `steps` of each stage, which are the same on every machine",
        "attempts": "every stage is taught once",
        "extends": "give the keys themselves",
    }.items():
        if key in file.config:
            raise ConfigError(f"A study's `config` has no '{key}'; {instead}.")
    config = validate({"threads": 1, "loggers": (), **file.config})
    if lesson := next((name for name, changed in config.lessons.items() if changed.steps), None):
        raise ConfigError(
            f"The steps of the lesson '{lesson}' stand in `config`; write them under `stages`, where they are counted."
        )
    return config
