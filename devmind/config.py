"""The configuration of a run: typed defaults for two CPU cores, YAML files of differences, `--set a.b=c` on top."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from devmind import bounds
from devmind.errors import ConfigError, nearest

Size = Literal["tiny", "nursery", "child", "adult"]
TRIAL_SIZES = ("tiny",)
"""Sizes for trying a run in minutes, with few steps a lesson and few episodes an exam. Their scores mean nothing."""


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors and values are never coerced across types."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TrunkConfig(Section):
    """The decoder that all senses share."""

    pretrained: str | None = Field(
        None, description="a decoder of transformers, by name or folder; None: a fresh Llama"
    )
    window: int | None = Field(None, ge=1, description="number of Moments that a token can see; None: the size's own")


class TextConfig(Section):
    """The texts that are read, and their tokenizer."""

    files: tuple[str, ...] | None = Field(
        None,
        description="UTF-8 texts to read; the last tenth of each is held out; None: those of --data, else the stage's",
    )
    tokenizer: str | None = Field(
        None,
        description="'bytes', 'bpe' (pieces, made from the texts of the lessons), 'own' (a pretrained trunk's), "
        "'patches' of eight bytes, or a file tokenizer.json; None: the agent's, else bytes",
    )
    pieces: int = Field(1024, ge=258, description="size of the vocabulary that 'bpe' makes")


class LessonConfig(Section):
    """A run's changes to one lesson."""

    steps: int | None = Field(None, ge=1, description="optimizer steps; None: the lesson's own for this size")
    batch: int | None = Field(None, ge=1, description="examples (or parallel worlds) a step; None: the lesson's own")
    learning_rate: float | None = Field(None, gt=0, description="peak learning rate; None: the lesson's own")
    learner: Literal["population", "closed_form"] | None = Field(
        None, description="another kind of learner, of those that the lesson has; None: the lesson's own"
    )
    options: Mapping[str, bool | int | float | str] = Field(
        default_factory=dict, description="further settings of the lesson, by name; the stage's page lists them"
    )


class ExamConfig(Section):
    """How skills are examined."""

    holdout: str | None = Field(
        None, description="speaker held out of the lessons; None: chosen by a hash of seed and name"
    )
    episodes_scale: float = Field(1.0, gt=0, le=10, description="factor on every exam's number of episodes")
    bootstrap: int = Field(2000, ge=100, description="resamples of a bootstrap interval")
    pass_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="share of an exam's episodes held again with the trunk's layers passing all through; 0: none",
    )


class CheckpointConfig(Section):
    """How a lesson is saved while it is taught."""

    every: str = Field(
        "continuous",
        pattern=r"^(continuous|[1-9]\d* steps?|(\d+\.?\d*|\.\d+)(e-?\d+)? s)$",
        description="'continuous': whenever the last checkpoint is on the disk; or 'N steps', or 'T s'",
    )
    backup: str | None = Field(None, description="folder on another disk for a second copy of checkpoints; None: none")


class FeedConfig(Section):
    """Experience that other processes push (`devmind feed serve`); `--experience feed:PLACE` sets its place."""

    place: str | None = Field(None, description="folder of a spool, or HOST:PORT of its server; None: nothing is fed")
    world: str | None = Field(
        None, description="the world whose lessons practise in what comes, or room; None: the one that the spool names"
    )
    token: str | None = Field(None, description="file with the server's token; for HOST:PORT")
    cert: str | None = Field(None, description="file of the server's TLS certificate (PEM); None: no TLS")
    samples_per_insert: int = Field(1, ge=1, description="how often a lesson takes each tick that has come")


class RunConfig(Section):
    """Everything that a run depends on, apart from its input files; stored with the run."""

    extends: str | None = Field(None, description="another configuration this one starts from")
    size: Size = Field("nursery", description="size of the agent; width, depth and budgets follow from it")
    seed: int = Field(0, ge=0, description="root of every random number")
    device: str = Field("auto", description="'auto', 'cpu', or a torch device")
    precision: Literal["32-true", "64-true", "bf16-mixed"] = Field(
        "32-true",
        description="of lessons: `bf16-mixed` halves bytes on a GPU; `64-true` takes 2.4 to 3.4 times the CPU seconds "
        "a step; files and exams stay float32",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="intra-op threads in training; None: all cores; a run that continues keeps its number",
    )
    minutes: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="about how many minutes all lessons of a stage take together on the machine that begins the run; "
        "their steps are scaled by one factor; None: their own steps",
    )
    checkpoint: CheckpointConfig = CheckpointConfig()
    loggers: tuple[Literal["csv", "tensorboard", "wandb"], ...] = Field(("csv",), description="Lightning loggers")
    devices: int = Field(
        1, ge=1, le=64,
        description="processes that teach together on this machine, one for each device; a step's batch is as many "
        "times as large",
    )  # fmt: skip
    strategy: Literal["ddp", "fsdp"] = Field(
        "ddp", description="'ddp': every device holds the whole agent; 'fsdp': each of them a part of it"
    )
    on: str = Field(
        "here",
        pattern="^(here|ray(:.+)?)$",
        description="where exams are held: 'here', 'ray' (a Ray cluster begun on this machine) or 'ray:ADDRESS'",
    )
    attempts: int = Field(
        1,
        ge=1,
        description="how often a stage that fails a gate is taught, at most; repeats have half the steps, and the best "
        "attempt is kept; a curriculum has 2 unless this is given",
    )
    trunk: TrunkConfig = TrunkConfig()
    text: TextConfig = TextConfig()
    stages: Mapping[str, Mapping[str, bool | int | float | str]] = Field(
        default_factory=dict, description="settings of a stage, by name; the stage's page lists them"
    )
    lessons: Mapping[str, LessonConfig] = Field(default_factory=dict, description="changes by lesson name")
    exam: ExamConfig = ExamConfig()
    feed: FeedConfig = FeedConfig()

    @field_validator("device")
    @classmethod
    def _is_device(cls, name: str) -> str:
        if name in ("auto", "cpu"):
            return name
        import torch  # torch knows the names of devices; whether the device is present is checked when a run begins

        try:
            torch.device(name)
        except RuntimeError:
            raise PydanticCustomError("device", "'auto', 'cpu' or the name of a torch device is expected") from None
        return name


class MemoryConfig(Section):
    """How long-term memory writes, recalls and forgets. The score is of Park et al. 2023, arXiv 2304.03442."""

    relevance: float = Field(1.0, ge=0, description="weight of the cosine, -1..1, in a recall's score")
    recency: float = Field(0.05, ge=0, description="weight of the decay since the writing, 0..1")
    importance: float = Field(0.05, ge=0, description="weight of i / (1 + i) for an importance i, 0..1")
    half_life_h: float = Field(138.0, gt=0, description="hours after which recency has halved")
    recalled: int = Field(4, ge=0, le=4, description="entries recalled at each tick; 0: none")
    use: Literal["trained", "always"] = Field(
        "trained", description="which agents step with recalled entries; others only show them"
    )
    keep: Literal["recorded", "always", "never"] = Field(
        "recorded", description="when Moments are kept on disk: while a recording runs, always, or never"
    )
    novelty: float = Field(0.1, gt=0, le=2, description="a Moment is kept when its nearest memory's cosine is 1 - this")
    shortest_s: float = Field(1.0, ge=0.1, description="seconds between two Moments kept, at least")
    longest_s: float | None = Field(60.0, ge=1, description="seconds after which a Moment is kept anyway; None: never")
    entries: int | None = Field(100_000, ge=1, description="budget: number of entries; None: no limit")
    megabytes: float | None = Field(4096.0, gt=0, description="budget: megabytes of payloads and keys; None: no limit")
    precision: Literal["float32", "int8"] = Field(
        "float32", description="precision of keys in RAM; the disk has float32"
    )


class PageConfig(Section):
    """Where the page of a life is served, and how it is opened."""

    shown: bool = Field(True, description="serve the page; else a line a second is printed")
    open: bool = Field(True, description="open the page in the browser of this desktop")
    host: str = Field("127.0.0.1", description="name or address of the page; any but this machine needs TLS")
    bind: str | None = Field(
        None, description="address to listen on, as 0.0.0.0 in a container; host stays the page's name; None: host"
    )
    port: int = Field(0, ge=0, le=65535, description="port of the page; 0: any free one")
    cert: str | None = Field(None, description="file of a TLS certificate (PEM); None: no TLS")
    key: str | None = Field(None, description="file of the certificate's private key")


class LiveConfig(Section):
    """The configuration of a live agent; `--set` of `devmind live`, `devmind hello` and `devmind session record`."""

    extends: str | None = Field(None, description="another configuration this one starts from")
    seconds: float | None = Field(None, gt=0, description="seconds after which it ends; None: when it is stopped")
    hz: float = Field(10.0, ge=1, le=50, description="ticks a second")
    lag_s: float = Field(0.06, gt=0, le=1, description="delay after a tick before its Moment is put together")
    frames: bool = Field(True, description="a recording keeps the camera's whole frames as well, as JPEG")
    rotate_s: float = Field(600.0, ge=1, description="seconds after which a recording continues in a new file")
    learn_every_s: float = Field(60.0, ge=1, description="pause between two hand-overs of newer weights")
    sure: float = Field(
        0.7, gt=0, lt=1,
        description="calibrated confidence from which the page shows what is seen, and own words are said",
    )  # fmt: skip
    asks: bool = Field(True, description="the agent asks on the page about unknown things that are held up")
    learn: bool = Field(False, description="learn from the recording in a second process")
    plans: str | None = Field(
        None, description="a plan file of procedures that direct the agent, or the name of one in devmind"
    )
    answers: Mapping[str, str | tuple[str, ...]] = Field(
        default_factory=dict, description="by effector the head or heads that may act, whatever their exams say"
    )
    speaker: str = Field("none", description="plays the agent's sound: 'default', a device's name, or 'none'")
    viewer: Literal["rerun"] | None = Field(None, description="show the life in Rerun as well; extra 'viewer'")
    page: PageConfig = PageConfig()
    memory: MemoryConfig = MemoryConfig()


Model = TypeVar("Model", bound=Section)
LIVE = "live"
"""The name of the one configuration that is a LiveConfig."""


def find(name: str) -> Path:
    """The file of a configuration: a given path, or `NAME.yaml` in the folder `configs/` of the wheel or the checkout.

    Raises:
        ConfigError: there is no such file; the message names the nearest configuration.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        if Path(name).is_file():
            return Path(name)
        raise ConfigError(
            f"There is no configuration file '{name}'; give an existing path or one of: {', '.join(config_names())}."
        )
    for folder in _folders():
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    raise ConfigError(f"There is no configuration '{name}'{nearest(name, config_names())}")


def _folders() -> list[Path]:
    package = Path(__file__).parent
    return [package / "configs", package.parent / "configs"]


def config_names() -> list[str]:
    """Names of the run configurations that come with devmind."""
    every = {path.stem for folder in _folders() if folder.is_dir() for path in folder.glob("*.yaml")}
    return sorted(every - {LIVE})


def load(name: str = "nursery", changes: Mapping[str, Any] | None = None, sets: Sequence[str] = ()) -> RunConfig:
    """The configuration of a run; see `load_as`."""
    return load_as(RunConfig, name, changes, sets)


def load_as(model: type[Model], name: str, changes: Mapping[str, Any] | None = None, sets: Sequence[str] = ()) -> Model:
    """Read configuration `name` with what it extends, then apply `changes` (nested) and `sets` (`a.b=c` texts).

    Raises:
        ConfigError: a key is unknown (the message names the nearest), a value has the wrong type, or a file cannot be
            read.
    """
    values = _read(name)
    for key, value in (changes or {}).items():
        _put(values, key.split("."), value)
    put_sets(values, sets)
    return validate_as(model, values)


def put_sets(values: dict[str, Any], sets: Sequence[str]) -> None:
    """Apply `a.b=c` texts to nested `values`, in place.

    Raises:
        ConfigError: a text has no key, or its value is no plain YAML.
    """
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set expects key=value, for example exam.holdout=theo; got '{text}'.")
        sentence = f"--set {key}: '{value[:80]}' is not a plain YAML value ({{}})."
        _put(values, key.split("."), bounds.parse_yaml(value, ConfigError, sentence) if value else None)


def validate(values: Mapping[str, Any]) -> RunConfig:
    """A RunConfig made of plain values; see `validate_as`."""
    return validate_as(RunConfig, values)


def validate_as(model: type[Model], values: Mapping[str, Any], prefix: str = "") -> Model:
    """A configuration of type `model`, made of plain values.

    Args:
        prefix: stands before the keys in messages, such as "stages.NAME." for a stage's settings.

    Raises:
        ConfigError: values do not fit; up to three faults are named, one sentence each.
    """
    try:
        return model.model_validate(move_sections(values) if model is RunConfig else values)
    except ValidationError as error:
        known = known_keys(model, prefix)
        raise ConfigError(" ".join(_sentence(item, known, prefix) for item in error.errors()[:3])) from None


MOVED = {"hearing": "stages.voice"}
"""Sections of configurations that older versions wrote, and where their keys stand now."""


def move_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values with older sections where they stand now; keys that were left open there are left out."""
    found = dict(values)
    if (seconds := found.pop("checkpoint_every_s", None)) is not None:
        _put(found, ["checkpoint", "every"], f"{seconds} s")
    for old, new in MOVED.items():
        section = found.pop(old, None)
        for key, value in (section if isinstance(section, Mapping) else {}).items():
            if value is not None:
                _put(found, [*new.split("."), key], value)
    return found


def differences(config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """`key -> (default, value)` for every key of `config` that is not at its default."""
    base, changed = flat(RunConfig().model_dump(mode="json")), flat(config.model_dump(mode="json"))
    return {key: (base.get(key), value) for key, value in changed.items() if base.get(key) != value}


def _read(name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    path = find(name)
    if str(path) in seen:
        raise ConfigError(f"Configuration '{name}' extends itself through {' -> '.join(seen)}; break the circle.")
    values = read_layer(path)
    parent = values.get("extends")
    if parent is not None and not isinstance(parent, str):
        raise ConfigError(f"Configuration '{path}': extends expects a configuration's name or path; got {parent!r}.")
    return _merge(_read(parent, (*seen, str(path))), values) if parent else values


def read_layer(path: Path) -> dict[str, Any]:
    """The keys and values of one file, without those that it extends.

    Raises:
        ConfigError: it cannot be read, is not YAML, or holds something else.
    """
    sentence = f"Configuration '{path}' is not readable YAML: {{}}. Correct it."
    values = bounds.parse_yaml(bounds.read_text(path, ConfigError), ConfigError, sentence) or {}
    if not isinstance(values, dict):
        raise ConfigError(f"Configuration '{path}' must hold keys and values; got {type(values).__name__}.")
    return values


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        below = values.get(part)
        values[part] = dict(below) if isinstance(below, Mapping) else {}
        values = values[part]
    values[path[-1]] = value


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their whole names, such as `exam.holdout`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def known_keys(model: type[BaseModel] = RunConfig, prefix: str = "") -> dict[str, str]:
    """Every key with its description, sections flattened (`exam.holdout`)."""
    keys: dict[str, str] = {}
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            keys |= known_keys(info.annotation, f"{prefix}{name}.")
        elif name == "lessons":
            keys |= known_keys(LessonConfig, f"{prefix}lessons.NAME.")
        elif name == "stages":
            keys["stages.NAME"] = info.description or ""
        else:
            keys[f"{prefix}{name}"] = info.description or ""
    return keys


EXPECTED = {"int_parsing": "a whole number is expected", "float_parsing": "a number is expected"}
"""Messages of pydantic in plain words, by its type of error."""


def _sentence(item: Mapping[str, Any], known: Mapping[str, str], prefix: str) -> str:
    key = prefix + ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"; did you mean '{close[0]}'?" if close else f"; known are: {', '.join(known)}."
        return f"There is no configuration key '{key}'{hint}"
    if item["type"] == "missing":
        return f"The configuration key '{key}' is missing; add it."
    said = EXPECTED.get(item["type"], item["msg"][0].lower() + item["msg"][1:])
    return f"Configuration key '{key}': {said}; got {item['input']!r}."
