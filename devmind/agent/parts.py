"""The parts of an agent: encoders and heads by name, built from the config through entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from devmind import plugins
from devmind.agent.batch import BODY_SIZE, RECALLED_BUDGET
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import PreTrainedModel
from devmind.agent.encoder_holder import EncoderHolder, attempt, check_options, named_seed
from devmind.agent.encoders import VectorEncoder, default_part
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output
from devmind.agent.saving import allowed
from devmind.agent.taps import RECALLED, Tap, Tapped, raw_sense, sense_of, tap_parts, tapped_senses, taps_trunk
from devmind.agent.text import TextHead
from devmind.agent.tracker import Tracker
from devmind.agent.trunk import Trunk
from devmind.errors import DevmindError, PluginError, nearest
from devmind.moment import STANDARD_SENSES


@dataclass(frozen=True)
class Effector:
    """The form of an effector's action in one tick: an array of this shape and dtype ("float32" or "int64").

    Attributes:
        horizon: the most ticks that one answer may cover; 1: every tick has an answer of its own.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    horizon: int = 1

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}, sequences of up to {self.horizon}"

    def check(self, head: str, output: Output, answer: Tensor) -> None:
        """Raise PluginError unless `answer` [B, ...] of `output` has this effector's form."""
        shape, dtype = tuple(answer.shape[1:]), "float32" if answer.is_floating_point() else "int64"
        sequence = output.horizon > 1
        if (shape[1:] if sequence else shape, dtype) == (self.shape, self.dtype) and output.horizon <= self.horizon:
            return
        got = f"{dtype} {list(shape)}, {'a sequence of ' + str(output.horizon) if sequence else 'no sequence'}"
        raise PluginError(
            f"The effector '{self.name}' takes {self}; the head '{head}' answers with {got}. Declare the effector with "
            "`add_effector` before its first head, or let the head answer in its form."
        )


class PartHolder(EncoderHolder, PreTrainedModel):
    """The base class of Agent that holds its encoders and heads."""

    config_class = AgentConfig
    _supports_sdpa = True  # or `set_attn_implementation` could go to "eager" and never back
    config: AgentConfig
    trunk: Trunk

    def __init__(self, config: AgentConfig) -> None:
        config._attn_implementation = "eager"  # it has no attention but its decoder's, which `decoders.py` chooses
        super().__init__(config)
        self.encoders, self.heads = nn.ModuleDict(), nn.ModuleDict()
        self.kept_tensors: dict[str, Tensor] = {}

    def build_parts(self, strict: bool, stages: Collection[str] | None = None) -> None:
        """Build the parts that the config names; a missing plugin is an error if `strict`, otherwise a warning.

        Args:
            stages: parts of other stages are left out, as if their plugins were missing, except for encoders that a
                head of these stages taps; None: all are built.
        """
        encoders, heads = self.config.encoders, self.config.heads
        if stages is not None:
            heads = [entry for entry in heads if entry["stage"] in stages]
            tapped = {sense_of(part) for entry in heads for part in tap_parts(entry["tap"])}
            encoders = [entry for entry in encoders if entry["stage"] in stages or entry["name"] in tapped]
        for build, entries in ((self.build_encoder, encoders), (self._build_head, heads)):
            for entry in entries:
                attempt(build, entry, strict)

    def add_encoder(
        self,
        sense: str,
        part: str | None = None,
        stage: str = "newborn",
        options: Mapping[str, Any] | None = None,
        space: Any = None,
    ) -> None:
        """Give the agent a sense.

        Args:
            part: entry point of the encoder. By default a standard sense has the encoder of its name, and any other
                sense one that fits its `space`, a Gymnasium Box.

        Raises:
            PluginError: there is no such part, the agent has the sense already, or no default fits.
        """
        if part is None and sense in STANDARD_SENSES:
            part = f"encoder.{sense}"
        elif part is None:
            if space is None:
                raise PluginError(f"The sense '{sense}' is not a standard one: name its part or give its space.")
            part, options = default_part(space)
        _check_new(sense, self.config.encoders, "encoder")
        entry = {"name": sense, "part": part, "stage": stage, "options": dict(options or {})}
        self.build_encoder(entry)
        self.config.encoders = [*self.config.encoders, entry]

    def add_head(
        self,
        name: str,
        part: str,
        tap: Tap = "trunk",
        effector: str | None = None,
        stage: str = "newborn",
        options: Mapping[str, Any] | None = None,
        recalls: bool = False,
        labels: Sequence[str] = (),
        standby: bool = False,
    ) -> None:
        """Give the agent a head; with `effector`, it is one of the heads that may answer for that effector.

        Args:
            options: keyword arguments of the head's class, as JSON; they are saved in the config.
            recalls: it is taught to answer from recalled memories; sleep moves such answers into the weights.
            labels: names of the classes of a head that chooses; names in memories are compared with them.
            standby: it answers only where it is named (`standing`, `--answers`), so the heads that acted before still
                do.

        Raises:
            PluginError: there is no such part, the name is taken, or the tap's sense has no encoder.
        """
        _check_new(name, self.config.heads, "head")
        entry: dict[str, Any] = {"name": name, "part": part, "stage": stage, "effector": effector}
        entry |= {"tap": tap if isinstance(tap, str) else list(tap), "options": dict(options or {})}
        entry |= ({"recalls": True} if recalls else {}) | ({"labels": list(labels)} if labels else {})
        entry |= {"standby": True} if standby else {}
        self._build_head(entry)
        self._tell_of_silence(entry)
        self.config.heads = [*self.config.heads, entry]

    def ensure_encoder(self, sense: str, *arguments: Any, **more: Any) -> bool:
        """`add_encoder`, unless the agent has the sense; returns whether it was added."""
        is_new = sense not in self.encoders
        if is_new:
            self.add_encoder(sense, *arguments, **more)
        return is_new

    def ensure_head(self, name: str, *arguments: Any, **more: Any) -> bool:
        """`add_head`, unless the agent has the head; returns whether it was added."""
        is_new = name not in self.heads
        if is_new:
            self.add_head(name, *arguments, **more)
        return is_new

    def add_effector(self, name: str, shape: Sequence[int] = (), dtype: str = "float32", horizon: int = 1) -> None:
        """Declare the form of an effector; one that is not declared takes the form of its first head's answers.

        Raises:
            PluginError: the effector is already declared in another form, or the form is invalid.
        """
        effector = Effector(name, tuple(shape), dtype, horizon)
        if dtype not in ("float32", "int64") or horizon < 1:
            raise PluginError(
                f"An effector takes 'float32' or 'int64' and sequences of 1 tick or more; got '{dtype}' and {horizon}."
            )
        known = self.declared(name)
        if known is not None and known != effector:
            raise PluginError(f"The effector '{name}' takes {known} already; got {effector}.")
        if known is None:
            entry = {"name": name, "shape": list(shape), "dtype": dtype, "horizon": horizon}
            self.config.effectors = [*self.config.effectors, entry]

    def add_tracker(self, detects: str, depth: str | None = None, names: str | None = None, **options: Any) -> None:
        """Give the agent a tracker, which keeps beliefs about things that its heads detect; it replaces an earlier one.

        Args:
            detects, depth, names: the heads that feed it; options: other fields of `tracker.Tracker`.

        Raises:
            PluginError: there is no such head, `detects` gives no detections, or its classes have no names.
        """
        for name in (detects, depth, names):
            if name is not None:
                self.head(name)
        output = _try_out(self.head(detects))
        if output is None or output.detections() is None:
            raise PluginError(f"Beliefs are fed by detections; the head '{detects}' gives none. Name one that does.")
        if not self.labels_of(detects):
            raise PluginError(f"The classes of '{detects}' have no names; add the head with `labels`.")
        self.config.tracker = asdict(Tracker(detects, depth, names, **options))

    @property
    def tracker(self) -> Tracker | None:
        """The agent's tracker; None if it has none, or if the plugin of a head that feeds it is missing."""
        if self.config.tracker is None:
            return None
        tracker = Tracker(**self.config.tracker)
        needed = {tracker.detects, tracker.depth, tracker.names} - {None}
        return tracker if needed <= set(self.heads) else None

    def labels_of(self, head: str) -> list[str]:
        """The names of a head's classes; empty if it was added without labels."""
        self.head(head)
        return next(list(entry.get("labels", ())) for entry in self.config.heads if entry["name"] == head)

    def declared(self, name: str) -> Effector | None:
        """The form of the effector `name`; None before it is declared or has a head."""
        for entry in self.config.effectors:
            if entry["name"] == name:
                return Effector(name, tuple(entry["shape"]), entry["dtype"], entry["horizon"])
        return None

    def _build_head(self, entry: Mapping[str, Any]) -> None:
        factory, inlet = plugins.load("parts", entry["part"]), self.inlet(entry["tap"])
        check_options(factory, entry, inlet)
        with named_seed(self.config.seed, "head", entry["name"]):
            head = factory(inlet, **entry["options"])
            if isinstance(head, Head):
                head.borrow(self.trunk)
        with torch.random.fork_rng(devices=[]):
            output = _try_out(head) if entry["effector"] else None
        if output is not None:
            answer = output.answer()
            if self.declared(entry["effector"]) is None:
                shape = answer.shape[2:] if output.horizon > 1 else answer.shape[1:]
                dtype = "float32" if answer.is_floating_point() else "int64"
                self.add_effector(entry["effector"], shape, dtype, output.horizon)
            declared = self.declared(entry["effector"])
            assert declared is not None
            declared.check(entry["name"], output, answer)
        if isinstance(head, TextHead):
            head.tie(self.encoder(tap_parts(entry["tap"])[0].removeprefix("trunk:")))
        self.heads[entry["name"]] = head.to(self.device)
        known = {name: one for name, one in self.heads.items() if isinstance(one, Head)}
        for one in known.values():
            one.meet(known)

    def _tell_of_silence(self, new: Mapping[str, Any]) -> None:
        """Warn if a head can never answer, because an earlier head of its effector and tap always fires."""
        output = _try_out(self.head(new["name"])) if new["effector"] else None
        if output is None or output.fires() is not None or new.get("standby"):
            return
        for name in self.heads_of(new["effector"]):
            other = _try_out(self.head(name))
            if other is not None and other.fires() is None and self.tap_of(name) == new["tap"]:
                warnings.warn(
                    f"Both '{name}' and '{new['name']}' always fire for '{new['effector']}' and tap the same: only "
                    f"'{name}', which was added first, will answer. Ask the other by name, or give it a threshold.",
                    stacklevel=3,
                )

    def inlet(self, tap: Tap) -> Inlet:
        """The shape of what a head with this tap reads; PluginError if its sense has no encoder."""
        width, parts = self.config.width, tap_parts(tap)
        raw = [sense for part in parts if (sense := raw_sense(part)) is not None]
        for sense in raw:
            if sense != "body" and self.encoder(sense).sense_dims != 1:
                raise PluginError(f"Only a vector sense can be tapped raw; '{sense}' is not one. Tap its tokens.")
        widest = max((self._numbers_of(sense) for sense in raw), default=BODY_SIZE)
        if raw and len(raw) == len(parts):
            return Inlet(widest, len(parts))
        if raw and width < widest:
            raise PluginError(
                f"A tap with raw numbers beside tokens needs an agent of width {widest} or more; got {width}."
            )
        senses = [sense_of(part) for part in parts]
        maps = {name: size for sense in tapped_senses(tap) for name, size in self.encoder(sense).map_channels.items()}
        n_tokens = sum(1 if sense is None else self.tokens_of(sense) for sense in senses)
        return Inlet(width, n_tokens, maps)

    def tokens_of(self, sense: str) -> int:
        """Number of tokens of a sense, or of recalled memories (RECALLED); PluginError if there is no encoder."""
        return RECALLED_BUDGET if sense == RECALLED else self.encoder(sense).n_tokens

    @property
    def raw_senses(self) -> dict[str, int]:
        """The body and the vector senses that a head taps raw, each with the most numbers that it may have."""
        taps = [tap_parts(tap if isinstance(tap := entry["tap"], str) else tuple(tap)) for entry in self.config.heads]
        senses = {"body"} | {sense for tap in taps for part in tap if (sense := raw_sense(part)) is not None}
        return {sense: self._numbers_of(sense) for sense in senses}

    def _numbers_of(self, sense: str) -> int:
        """The most numbers of a vector sense, at least those of a body; shorter readings are padded to it."""
        encoder = self.encoder(sense) if sense in self.encoders else None
        return max(BODY_SIZE, encoder.size) if isinstance(encoder, VectorEncoder) else BODY_SIZE

    def head(self, name: str) -> Head:
        """The head `name`; PluginError names the nearest if there is none."""
        if name not in self.heads:
            raise PluginError(f"This agent has no head '{name}'{nearest(name, self.heads)}")
        return self.heads[name]  # type: ignore[return-value]

    def tap_of(self, name: str) -> Tap:
        """The tap of the head `name`."""
        self.head(name)
        return next(entry["tap"] for entry in self.config.heads if entry["name"] == name)

    def heads_of(self, effector: str, standby: bool = False) -> list[str]:
        """The heads that answer for `effector`, in order: arcs first, heads that tap the trunk last.

        Args:
            standby: include heads that answer only where they are named.
        """
        every = [entry for entry in self._present(self.config.heads, self.heads) if entry["effector"] == effector]
        eligible = [entry for entry in every if standby or not entry.get("standby")]
        return [entry["name"] for entry in sorted(eligible, key=lambda entry: taps_trunk(entry["tap"]))]

    @property
    def effectors(self) -> list[str]:
        """All effectors that have a head, sorted."""
        return sorted({entry["effector"] for entry in self._present(self.config.heads, self.heads)} - {None})

    def part_parameters(self) -> dict[tuple[str, str], list[nn.Parameter]]:
        """Parameters of encoders and heads by (part, stage): ("encoder.sight", "reflex"), ("head.look", ...)."""
        groups = {}
        for kind, entries, modules in (
            ("encoder", self.config.encoders, self.encoders),
            ("head", self.config.heads, self.heads),
        ):
            for entry in self._present(entries, modules):
                groups[f"{kind}.{entry['name']}", entry["stage"]] = list(modules[entry["name"]].parameters())
        return groups

    def missing_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the saved tensors of parts that were not built."""
        return tuple(
            f"{kind}.{entry['name']}."
            for kind, entries, modules in (
                ("encoders", self.config.encoders, self.encoders),
                ("heads", self.config.heads, self.heads),
            )
            for entry in entries
            if entry["name"] not in modules
        )

    @staticmethod
    def _present(entries: Iterable[Mapping[str, Any]], modules: nn.ModuleDict) -> list[Mapping[str, Any]]:
        known = set(modules)  # a look-up in the module itself costs a call for each name
        return [entry for entry in entries if entry["name"] in known]


def _try_out(head: Head) -> Output | None:
    """The head's answer to one Moment of zeros; None if it cannot answer that."""
    inlet = head.inlet
    maps = {}
    with allowed():
        for name, channels in inlet.map_channels.items():
            side = 64 // int(name.removeprefix("stride")) if name.removeprefix("stride").isdecimal() else 8
            maps[name] = torch.zeros(1, channels, side, side)
        tokens, present = torch.zeros(1, inlet.n_tokens, inlet.width), torch.ones(1, inlet.n_tokens, dtype=torch.bool)
    tapped = Tapped(tokens, present, maps)
    try:
        with torch.no_grad():
            return head.respond(tapped.map(lambda x: x.to(next(head.parameters(), x).device)))
    # Some heads need more than zeros; their answers are checked when they act (`action_selection.py`).
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, DevmindError):
        return None


def _check_new(name: str, entries: Sequence[Mapping[str, Any]], kind: str) -> None:
    if any(entry["name"] == name for entry in entries):
        raise PluginError(f"This agent has the {kind} '{name}' already; choose another name.")
    if "." in name or not name:
        raise PluginError(f"The name of an agent's {kind} may not be empty nor hold a dot; got '{name}'.")
    if hasattr(nn.ModuleDict, name) or hasattr(nn.ModuleDict(), name):  # torch refuses it: it has a method of that name
        raise PluginError(f"No {kind} of an agent can be named '{name}', a word of torch's own; choose another name.")


@dataclass(frozen=True)
class PartSpec:
    """A part that a stage gives an agent, as data: an encoder, or a head where it has a `tap`.

    Args:
        name: of the sense, or of the head.
        part: entry point; None: the default encoder of the sense (`add_encoder`).
        tap, effector, recalls, labels, standby: as in `add_head`.
        shape: the form of the effector's answer in one tick; None: that of its first head's answer.
        options: keyword arguments of the part's class, at every size.
        sizes: further ones by the agent's size.
        space: of a sense without a part, a Gymnasium Box.
        starts_from: a head whose reading it starts with, if the agent has that head.
    """

    name: str
    part: str | None = None
    tap: Tap | None = None
    effector: str | None = None
    shape: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    space: Any = None
    recalls: bool = False
    labels: Sequence[str] = ()
    standby: bool = False
    starts_from: str = ""

    def add(self, agent: PartHolder, stage: str) -> None:
        """Add the part, unless the agent has it.

        Raises:
            PluginError: as `add_encoder` and `add_head` do.
        """
        options = {**self.options, **self.sizes.get(agent.config.size, {})}
        if self.tap is None:
            agent.ensure_encoder(self.name, self.part, stage, options, self.space)
        elif self.name not in agent.heads:
            if self.part is None:
                raise PluginError(f"The head '{self.name}' of stage '{stage}' names no part; give its entry point.")
            if self.effector is not None and self.shape is not None:
                agent.add_effector(self.effector, self.shape)
            agent.add_head(
                self.name, self.part, self.tap, self.effector, stage, options, self.recalls, self.labels, self.standby
            )
            if self.starts_from in agent.heads:
                agent.head(self.name).start_from(agent.head(self.starts_from))


Part = PartSpec | Callable[[Any], PartSpec | None]
"""A part, or a function of the agent: one that gives a part, where this depends on the agent; or one that adds what is
neither encoder nor head (layers, pages, a tracker), and gives None."""


def add_all(agent: PartHolder, stage: str, parts: Iterable[Part]) -> None:
    """Give the agent the `parts` of a stage, in this order; those that it has already stay as they are."""
    for part in parts:
        spec = part if isinstance(part, PartSpec) else part(agent)
        if spec is not None:
            spec.add(agent, stage)
