"""The parts of an agent: encoders and heads by name, built from the config through entry points.

Every part draws its first weights from its own named seed, so adding one leaves all others bit-equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from devmind import plugins
from devmind.agent.batch import BODY_SIZE
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoder, default_part
from devmind.agent.heads import Head, Inlet
from devmind.agent.taps import Tap, tapped_senses, taps_trunk
from devmind.errors import PluginError, nearest
from devmind.moment import STANDARD_SENSES
from devmind.seeding import derive_seed


@contextmanager
def named_seed(*parts: int | str) -> Iterator[None]:
    """Within the block torch's random numbers come from a seed named by `parts`; outside they are untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(*parts))
        yield


class PartHolder(PreTrainedModel):
    """The layer of Agent that knows its encoders and heads."""

    config_class = AgentConfig
    config: AgentConfig

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self.encoders, self.heads = nn.ModuleDict(), nn.ModuleDict()
        self.kept_tensors: dict[str, Tensor] = {}

    def build_parts(self, strict: bool) -> None:
        """Build what the config names; a part whose plugin is missing is an error or a warning."""
        for build, entries in ((self._build_encoder, self.config.encoders), (self._build_head, self.config.heads)):
            for entry in entries:
                self._attempt(build, entry, strict)

    def add_encoder(
        self,
        sense: str,
        part: str | None = None,
        stage: str = "newborn",
        options: Mapping[str, Any] | None = None,
        space: Any = None,
    ) -> None:
        """Give the agent a sense. Without `part`: the standard one, or by `space` (a Gymnasium Box) for an own sense.

        Raises:
            PluginError: no such part, the sense is there already, or no default fits.
        """
        if part is None and sense in STANDARD_SENSES:
            part = f"encoder.{sense}"
        elif part is None:
            if space is None:
                raise PluginError(f"The sense '{sense}' is not a standard one: name its part or give its space.")
            part, options = default_part(space)
        _check_new(sense, self.config.encoders, "encoder")
        entry = {"name": sense, "part": part, "stage": stage, "options": dict(options or {})}
        self._build_encoder(entry)
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
    ) -> None:
        """Give the agent a head; with `effector`, it is one of those that may answer for it.

        Args:
            options: keyword arguments of the head's class, as JSON; they are saved in the config.
            recalls: it is taught to answer from what memory brings back; sleep moves such answers into the weights.
            labels: what each class of a head that chooses is called; what memories say is compared with them.

        Raises:
            PluginError: no such part, the name is taken, or the tap's sense has no encoder.
        """
        _check_new(name, self.config.heads, "head")
        entry: dict[str, Any] = {"name": name, "part": part, "stage": stage, "effector": effector}
        entry |= {"tap": tap if isinstance(tap, str) else list(tap), "options": dict(options or {})}
        entry |= ({"recalls": True} if recalls else {}) | ({"labels": list(labels)} if labels else {})
        self._build_head(entry)
        self.config.heads = [*self.config.heads, entry]

    def _attempt(self, build: Callable[[Mapping[str, Any]], None], entry: Mapping[str, Any], strict: bool) -> None:
        try:
            build(entry)
        except PluginError as error:
            if strict:
                raise
            warnings.warn(f"The part '{entry['name']}' is left out, its weights are kept: {error}", stacklevel=2)

    def _build_encoder(self, entry: Mapping[str, Any]) -> None:
        factory = plugins.load("parts", entry["part"])
        with named_seed(self.config.seed, "encoder", entry["name"]):
            encoder = factory(self.config.width, **entry["options"])
        self.encoders[entry["name"]] = encoder.to(self.device)

    def _build_head(self, entry: Mapping[str, Any]) -> None:
        factory, inlet = plugins.load("parts", entry["part"]), self.inlet(entry["tap"])
        with named_seed(self.config.seed, "head", entry["name"]):
            head = factory(inlet, **entry["options"])
        self.heads[entry["name"]] = head.to(self.device)

    def inlet(self, tap: Tap) -> Inlet:
        """The shape a head with this tap reads; PluginError when its sense has no encoder."""
        width = self.config.width
        if tap == "trunk":
            return Inlet(width, 1)
        if isinstance(tap, str) and tap.startswith("raw:"):
            if tap != "raw:body":
                raise PluginError(f"Only 'raw:body' can be tapped raw; got '{tap}'.")
            return Inlet(BODY_SIZE, 1)
        senses = (str(tap).removeprefix("trunk:"),) if taps_trunk(tap) else tapped_senses(tap)
        encoders = [self.encoder(sense) for sense in senses]
        maps = encoders[0].map_channels if len(senses) == 1 and not taps_trunk(tap) else {}
        return Inlet(width, sum(encoder.n_tokens for encoder in encoders), maps)

    def encoder(self, sense: str) -> Encoder:
        """The encoder of `sense`; PluginError names the nearest when there is none."""
        if sense not in self.encoders:
            raise PluginError(f"This agent has no encoder for the sense '{sense}'{nearest(sense, self.encoders)}")
        return self.encoders[sense]  # type: ignore[return-value]

    def head(self, name: str) -> Head:
        """The head `name`; PluginError names the nearest when there is none."""
        if name not in self.heads:
            raise PluginError(f"This agent has no head '{name}'{nearest(name, self.heads)}")
        return self.heads[name]  # type: ignore[return-value]

    def tap_of(self, name: str) -> Tap:
        """What the head `name` taps."""
        self.head(name)
        return next(entry["tap"] for entry in self.config.heads if entry["name"] == name)

    def heads_of(self, effector: str) -> list[str]:
        """The heads that may answer for `effector`, in order: arcs first, the trunk's last."""
        mine = [entry for entry in self._present(self.config.heads, self.heads) if entry["effector"] == effector]
        return [entry["name"] for entry in sorted(mine, key=lambda entry: taps_trunk(entry["tap"]))]

    @property
    def effectors(self) -> list[str]:
        """Every effector some head answers for, sorted."""
        return sorted({entry["effector"] for entry in self._present(self.config.heads, self.heads)} - {None})

    @property
    def sense_order(self) -> list[str]:
        """The fixed order of senses within a Moment: the standard ones, then own ones as they were added."""
        own = [sense for sense in self.encoders if sense not in STANDARD_SENSES]
        return [sense for sense in STANDARD_SENSES if sense in self.encoders] + own

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
        """Prefixes of the saved tensors of parts that are in the config but whose plugin is missing."""
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
        return [entry for entry in entries if entry["name"] in modules]


def _check_new(name: str, entries: Sequence[Mapping[str, Any]], kind: str) -> None:
    if any(entry["name"] == name for entry in entries):
        raise PluginError(f"This agent has the {kind} '{name}' already; choose another name.")
    if "." in name or not name:
        raise PluginError(f"The name of an agent's {kind} may not be empty nor hold a dot; got '{name}'.")
