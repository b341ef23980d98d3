"""The agent: encoders, trunk and heads in one PreTrainedModel, stepped tick by tick or run all at once.

No training, metrics or hardware in here. State is passed in and out. Every part draws its first weights from its own
named seed, so adding one leaves all others bit-equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from devmind import plugins
from devmind.agent.batch import BODY_SIZE, Batch, collate, to_device
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoded, Encoder, default_part, encode_rows
from devmind.agent.heads import Head, Inlet, Tapped
from devmind.agent.output import Output
from devmind.agent.saving import SavingMixin
from devmind.agent.trunk import Trunk
from devmind.agent.window import Ring, State
from devmind.errors import DevmindError, PluginError, nearest
from devmind.moment import STANDARD_SENSES, Action, Moment
from devmind.seeding import derive_seed, torch_generator

KEY_SIZE = 64


@dataclass
class Percepts:
    """One tick of B agents, encoded: what arcs read, what memory is asked with, what the trunk steps on.

    Attributes:
        encoded: tokens [B, K, D], presence and maps by sense.
        keys: L2-normalised float32 [B, 64] by sense; zeros where the sense is absent.
        batch: the tick itself, with T = 1.
    """

    encoded: dict[str, Encoded]
    keys: dict[str, Tensor]
    batch: Batch


@dataclass
class StepOutput:
    """What came of a tick.

    Attributes:
        action: by effector, [B, ...]; rows nobody answered for are zero.
        acted: by effector, bool [B].
        outputs: Output by head name, of the heads that were run.
        answered: by effector and head, how many of the B rows that head decided.
        features: the readout's feature [B, D]; None when the trunk was not run.
    """

    action: dict[str, Tensor]
    acted: dict[str, Tensor]
    outputs: dict[str, Output]
    answered: dict[str, dict[str, int]]
    features: Tensor | None = None

    def to_action(self, row: int = 0) -> Action:
        """The Action of one agent, as arrays."""
        chosen = {name: value[row].cpu().numpy() for name, value in self.action.items() if self.acted[name][row]}
        return Action({name: np.asarray(value) for name, value in chosen.items()})


@dataclass
class Perceived:
    """Everything a tap may read: encoded senses, the raw body, and the trunk's features once they were needed."""

    encoded: dict[str, Encoded]
    body: Tensor | None = None
    readout: Tensor | None = None
    of_senses: dict[str, Encoded] = field(default_factory=dict)


def taps_trunk(tap: str | Sequence[str]) -> bool:
    """Whether a head with this tap needs the trunk."""
    return isinstance(tap, str) and (tap == "trunk" or tap.startswith("trunk:"))


def tapped_senses(tap: str | Sequence[str]) -> tuple[str, ...]:
    """The senses whose encoder tokens a tap reads; none for the trunk and for raw senses."""
    if not isinstance(tap, str):
        return tuple(tap)
    return () if taps_trunk(tap) or tap.startswith("raw:") else (tap,)


class Agent(SavingMixin, PreTrainedModel):
    """One multimodal agent; see the module's docstring, and DESIGN section 3 for the laws of its parts."""

    config_class = AgentConfig
    base_model_prefix = "agent"
    main_input_name = "batch"
    _supports_sdpa = True

    def __init__(self, config: AgentConfig, strict: bool = False) -> None:
        """Build every part that `config` names.

        Args:
            strict: a part whose plugin is missing is an error, not a warning.
        """
        super().__init__(config)
        self.encoders, self.heads = nn.ModuleDict(), nn.ModuleDict()
        self.kept_tensors: dict[str, Tensor] = {}
        with _named_init(config.seed, "trunk"):
            self.trunk = Trunk(config)
        with _named_init(config.seed, "agent"):
            self.readout = nn.Parameter(torch.randn(config.width) * 0.3)
            self.recalled_type = nn.Parameter(torch.randn(config.width) * 0.3)
            self.age = nn.Linear(1, config.width)
        projection = torch.randn(config.width, KEY_SIZE, generator=torch_generator(config.seed, "key"))
        self.register_buffer("key_projection", projection)
        for entry in config.encoders:
            self._attempt(self._build_encoder, entry, strict)
        for entry in config.heads:
            self._attempt(self._build_head, entry, strict)
        self.post_init()

    def init_weights(self) -> None:
        """Nothing: every part has drawn its weights from its own named seed already."""

    # -- parts ---------------------------------------------------------------------------------------------------

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
        self._check_new(sense, self.config.encoders, "encoder")
        entry = {"name": sense, "part": part, "stage": stage, "options": dict(options or {})}
        self._build_encoder(entry)
        self.config.encoders = [*self.config.encoders, entry]

    def add_head(
        self,
        name: str,
        part: str,
        tap: str | Sequence[str] = "trunk",
        effector: str | None = None,
        stage: str = "newborn",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Give the agent a head; with `effector`, it is one of those that may answer for it.

        Raises:
            PluginError: no such part, the name is taken, or the tap's sense has no encoder.
        """
        self._check_new(name, self.config.heads, "head")
        tap = tap if isinstance(tap, str) else list(tap)
        entry = {"name": name, "part": part, "stage": stage, "tap": tap, "effector": effector}
        entry["options"] = dict(options or {})
        self._build_head(entry)
        self.config.heads = [*self.config.heads, entry]

    def _check_new(self, name: str, entries: Iterable[Mapping[str, Any]], kind: str) -> None:
        if any(entry["name"] == name for entry in entries):
            raise PluginError(f"This agent has a {kind} named '{name}' already; choose another name.")
        if "." in name or not name:
            raise PluginError(f"The name of a {kind} may not be empty nor hold a dot; got '{name}'.")

    def _attempt(self, build: Any, entry: Mapping[str, Any], strict: bool) -> None:
        try:
            build(entry)
        except PluginError as error:
            if strict:
                raise
            warnings.warn(f"The part '{entry['name']}' is left out, its weights are kept: {error}", stacklevel=2)

    def _build_encoder(self, entry: Mapping[str, Any]) -> None:
        factory = plugins.load("parts", entry["part"])
        with _named_init(self.config.seed, "encoder", entry["name"]):
            encoder = factory(self.config.width, **entry["options"])
        self.encoders[entry["name"]] = encoder.to(self.device)

    def _build_head(self, entry: Mapping[str, Any]) -> None:
        inlet = self.inlet(entry["tap"])
        factory = plugins.load("parts", entry["part"])
        with _named_init(self.config.seed, "head", entry["name"]):
            head = factory(inlet, **entry["options"])
        self.heads[entry["name"]] = head.to(self.device)

    def inlet(self, tap: str | Sequence[str]) -> Inlet:
        """The shape a head with this tap reads; PluginError when its sense has no encoder."""
        width = self.config.width
        if tap == "trunk":
            return Inlet(width, 1)
        if isinstance(tap, str) and tap.startswith("raw:"):
            if tap != "raw:body":
                raise PluginError(f"Only 'raw:body' can be tapped raw; got '{tap}'.")
            return Inlet(BODY_SIZE, 1)
        senses = (str(tap).removeprefix("trunk:"),) if taps_trunk(tap) else tapped_senses(tap)
        for sense in senses:
            if sense not in self.encoders:
                raise PluginError(f"The tap '{tap}' needs the sense '{sense}'{nearest(sense, self.encoders)}")
        encoders = [self.encoder(sense) for sense in senses]
        maps = encoders[0].map_channels if len(senses) == 1 and not taps_trunk(tap) else {}
        return Inlet(width, sum(encoder.n_tokens for encoder in encoders), maps)

    def encoder(self, sense: str) -> Encoder:
        """The encoder of `sense`."""
        return self.encoders[sense]  # type: ignore[return-value]

    def head(self, name: str) -> Head:
        """The head `name`; PluginError names the nearest when there is none."""
        if name not in self.heads:
            raise PluginError(f"This agent has no head '{name}'{nearest(name, self.heads)}")
        return self.heads[name]  # type: ignore[return-value]

    def head_entry(self, name: str) -> Mapping[str, Any]:
        """The config entry of the head `name` (part, stage, tap, effector, options)."""
        self.head(name)
        return next(entry for entry in self.config.heads if entry["name"] == name)

    def heads_of(self, effector: str) -> list[str]:
        """The heads that may answer for `effector`, in order: arcs first, the trunk's last."""
        mine = [e for e in self.config.heads if e["effector"] == effector and e["name"] in self.heads]
        return [entry["name"] for entry in sorted(mine, key=lambda entry: taps_trunk(entry["tap"]))]

    @property
    def effectors(self) -> list[str]:
        """Every effector some head answers for."""
        return sorted({e["effector"] for e in self.config.heads if e["effector"] and e["name"] in self.heads})

    def parts(self) -> dict[tuple[str, str], list[nn.Parameter]]:
        """Parameters by (part, stage), for optimizer groups: ("trunk", stage), ("encoder.sight", stage), ..."""
        own = [*self.trunk.parameters(), self.readout, self.recalled_type, *self.age.parameters()]
        groups = {("trunk", self.config.trunk_stage): own}
        for kind, entries, modules in (
            ("encoder", self.config.encoders, self.encoders),
            ("head", self.config.heads, self.heads),
        ):
            for entry in entries:
                if entry["name"] in modules:
                    groups[f"{kind}.{entry['name']}", entry["stage"]] = list(modules[entry["name"]].parameters())
        return groups

    def grow(self, layers: int) -> None:
        """Append `layers` trunk layers with zero output projections: every answer stays exactly as it is.

        States made before have too few layers: make new ones.
        """
        self.trunk.grow(layers, self.config.seed)
        self.config.layers = self.trunk.n_layers
        if self.config.trunk is not None:
            self.config.trunk = self.trunk.decoder.config.to_dict()

    # -- senses --------------------------------------------------------------------------------------------------

    @property
    def sense_order(self) -> list[str]:
        """The fixed order of senses within a Moment: the standard ones, then own ones as they were added."""
        return [s for s in STANDARD_SENSES if s in self.encoders] + [
            s for s in self.encoders if s not in STANDARD_SENSES
        ]

    def encode_senses(
        self,
        senses: Mapping[str, Tensor],
        present: Mapping[str, Tensor] | None = None,
        previous: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        names: Iterable[str] | None = None,
    ) -> dict[str, Encoded]:
        """Tokens of senses [*L, ...] over any leading dimensions, without the trunk.

        Args:
            present: bool [*L] by sense; a sense not named is present everywhere.
            previous: (last tick's readings [*L, ...], presence bool [*L]) by sense, for encoders that see change.
            names: which senses to encode; by default all that have an encoder.
        """
        chosen = [n for n in self.sense_order if n in senses and (names is None or n in set(names))]
        encoded = {}
        for name in chosen:
            encoder, x = self.encoder(name), senses[name].to(self.device)
            here = None if present is None else present.get(name)
            if here is None:
                here = torch.ones(x.shape[: x.ndim - encoder.sense_dims], dtype=torch.bool, device=x.device)
            before = (previous or {}).get(name) if encoder.uses_previous else None
            value, known = (None, None) if before is None else (before[0].to(x.device), before[1].to(x.device))
            encoded[name] = encode_rows(encoder, x, here.to(x.device), value, known)
        return encoded

    def _encode_batch(
        self,
        batch: Batch,
        names: Iterable[str] | None = None,
        carried: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> dict[str, Encoded]:
        """Encode a Batch [B, T, ...]; the tick before a Moment is its row's last one, or `carried` before the first."""
        previous = {}
        for name in self.sense_order:
            if name in batch["senses"] and self.encoder(name).uses_previous:
                x, here = batch["senses"][name], batch["present"][name]
                value, known = (carried or {}).get(name) or (x[:, 0], torch.zeros_like(here[:, 0]))
                values = torch.cat((value[:, None].to(x.dtype), x[:, :-1]), 1) if x.shape[1] > 1 else value[:, None]
                knowns = torch.cat((known[:, None], here[:, :-1]), 1) & ~batch["first"]
                previous[name] = (values, knowns)
        return self.encode_senses(batch["senses"], batch["present"], previous, names)

    def encode_recalled(self, recalled: Batch) -> Encoded:
        """What memory gave, one token an entry, with type and age: tokens [..., R, D].

        Args:
            recalled: from `collate_recalled`: senses [..., R, *], present and valid bool [..., R], age_s [..., R].
        """
        recalled = to_device(recalled, self.device)
        age = self.age(recalled["age_s"][..., None].clamp_min(0).log1p())
        total = torch.zeros_like(age)
        count = torch.zeros_like(age[..., :1])
        for encoded in self.encode_senses(recalled["senses"], recalled["present"]).values():
            weight = encoded.present[..., None]
            total = total + (encoded.tokens * weight).sum(-2)
            count = count + weight.sum(-2)
        tokens = total / count.clamp_min(1) + age + self.recalled_type
        return Encoded(tokens, recalled["valid"] & (count[..., 0] > 0))

    def key(self, encoded: Encoded) -> Tensor:
        """The key of an encoded sense, float32 [..., 64] of length 1: a fixed projection of the mean token."""
        weight = encoded.present[..., None].to(encoded.tokens.dtype)
        mean = (encoded.tokens * weight).sum(-2) / weight.sum(-2).clamp_min(1)
        return F.normalize((mean @ self.key_projection.to(mean.dtype)).float(), dim=-1)

    # -- the trunk -----------------------------------------------------------------------------------------------

    def _assemble(
        self, encoded: Mapping[str, Encoded], recalled: Encoded | None, lead: Sequence[int]
    ) -> tuple[Tensor, Tensor, dict[str, slice]]:
        """All tokens of a Moment in their fixed order: tokens [..., n, D], presence, and each sense's place."""
        tokens, present, places, at = [], [], {}, 0
        if recalled is not None:
            tokens, present, at = [recalled.tokens], [recalled.present], recalled.tokens.shape[-2]
        for name in self.sense_order:
            if name in encoded:
                tokens.append(encoded[name].tokens + self.encoder(name).type_embedding)
                present.append(encoded[name].present)
                places[name] = slice(at, at + tokens[-1].shape[-2])
                at = places[name].stop
        tokens.append(self.readout.expand(*lead, 1, -1))
        present.append(torch.ones(*lead, 1, dtype=torch.bool, device=self.device))
        return torch.cat(tokens, -2), torch.cat(present, -1), places

    def _run_trunk(
        self, perceived: Perceived, recalled: Encoded | None, first: Tensor, ring: Ring | None = None
    ) -> None:
        """Fill in the trunk's features, all at once (first [B, T]) or as one step into `ring` (first [B])."""
        tokens, present, places = self._assemble(perceived.encoded, recalled, first.shape)
        # Columns that no Moment of the batch uses are not computed: an absent sense costs nothing.
        used = present.flatten(0, -2).any(0)
        packed = (tokens, present) if bool(used.all()) else (tokens[..., used, :], present[..., used])
        features = self.trunk(*packed, first) if ring is None else self.trunk.step(*packed, first, ring)
        perceived.readout = features[..., -1, :]
        if not bool(used.all()):
            features = features.new_zeros(tokens.shape).index_copy(-2, used.nonzero().squeeze(-1), features)
        perceived.of_senses = {
            name: Encoded(features[..., place, :], present[..., place]) for name, place in places.items()
        }

    # -- heads ---------------------------------------------------------------------------------------------------

    def _tap(self, tap: str | Sequence[str], seen: Perceived) -> Tapped | None:
        """What a head with this tap reads, or None when none of it was sensed."""
        if tap == "trunk":
            if seen.readout is None:
                return None
            ones = torch.ones(*seen.readout.shape[:-1], 1, dtype=torch.bool, device=seen.readout.device)
            return Tapped(seen.readout[..., None, :], ones)
        if tap == "raw:body":
            if seen.body is None:
                return None
            body = F.pad(seen.body.float().nan_to_num(0.0), (0, BODY_SIZE - seen.body.shape[-1]))
            return Tapped(body[..., None, :], torch.ones_like(body[..., :1], dtype=torch.bool))
        if isinstance(tap, str) and tap.startswith("trunk:"):
            found = seen.of_senses.get(tap.removeprefix("trunk:"))
            return None if found is None else Tapped(found.tokens, found.present)
        senses = tapped_senses(tap)
        here = [seen.encoded[sense] for sense in senses if sense in seen.encoded]
        if not here:
            return None
        if len(senses) == 1:
            return Tapped(here[0].tokens, here[0].present, here[0].maps)
        return self._tap_several(senses, seen, here[0])

    def _tap_several(self, senses: Sequence[str], seen: Perceived, like: Encoded) -> Tapped:
        tokens, present = [], []
        for sense in senses:
            found, k = seen.encoded.get(sense), self.encoder(sense).n_tokens
            shape = (*like.present.shape[:-1], k)
            tokens.append(found.tokens if found else like.tokens.new_zeros(*shape, self.config.width))
            present.append(found.present if found else like.present.new_zeros(shape))
        return Tapped(torch.cat(tokens, -2), torch.cat(present, -1))

    def run_heads(self, names: Iterable[str], seen: Perceived | Mapping[str, Encoded]) -> dict[str, Output]:
        """Outputs of heads on what was perceived; a mapping of encoded senses serves heads that tap senses.

        Raises:
            DevmindError: a head taps something that was not sensed.
        """
        seen = seen if isinstance(seen, Perceived) else Perceived(dict(seen))
        outputs = {}
        for name in names:
            head, tap = self.head(name), self.head_entry(name)["tap"]
            tapped = self._tap(tap, seen)
            if tapped is None:
                raise DevmindError(
                    f"The head '{name}' taps '{tap}', which is not among what was perceived "
                    f"({', '.join(seen.encoded) or 'nothing'})."
                )
            outputs[name] = head(tapped)
        return outputs

    # -- the two ways to run -------------------------------------------------------------------------------------

    def perceive(self, batch: Batch, taps: Iterable[str | Sequence[str]]) -> Perceived:
        """Run a Batch as far as the taps need it: only tapped senses, and the trunk only for a tap on it."""
        batch, taps = to_device(batch, self.device), list(taps)
        trunk = any(taps_trunk(tap) for tap in taps)
        wanted = None if trunk else {sense for tap in taps for sense in tapped_senses(tap)}
        seen = Perceived(self._encode_batch(batch, wanted), batch["senses"].get("body"))
        if trunk:
            recalled = self.encode_recalled(batch["recalled"]) if "recalled" in batch else None
            self._run_trunk(seen, recalled, batch["first"])
        return seen

    def forward(self, batch: Batch, heads: Iterable[str] | None = None) -> dict[str, Output]:
        """Outputs [B, T, ...] of `heads` (all by default) for a Batch of consecutive Moments, all at once.

        A row starts with an empty window; Moments never see beyond a `first`.
        """
        names = list(self.heads if heads is None else heads)
        return self.run_heads(names, self.perceive(batch, [self.head_entry(name)["tap"] for name in names]))

    @torch.no_grad()
    def evaluate(self, boards: Tensor, heads: Iterable[str]) -> dict[str, Output]:
        """Outputs [N, ...] of heads for N unrelated boards int8 [N, C, H, W]: one Moment each, no state."""
        ones = torch.ones(len(boards), 1, dtype=torch.bool)
        batch = {"senses": {"board": boards[:, None]}, "present": {"board": ones}, "first": ones}
        names = list(heads)
        seen = self.perceive(batch, [self.head_entry(name)["tap"] for name in names])
        return self.run_heads(names, _drop_time(seen))

    def new_state(self, n: int = 1) -> State:
        """The empty state of `n` agents that step together."""
        return State(Ring(n, self.config.window, self.trunk.n_layers, self.device))

    @torch.no_grad()
    def encode(self, state: State, moments: Moment | Sequence[Moment] | Batch) -> Percepts:
        """Encode one tick: tokens, maps and keys by sense. The state is only read.

        Args:
            moments: a Moment, one for each of the state's agents, or a Batch with T = 1 (`collate_tick`).
        """
        if isinstance(moments, Moment):
            moments = [moments]
        batch = moments if isinstance(moments, dict) else collate([[moment] for moment in moments])
        batch = to_device(batch, self.device)
        state.check_rows(len(batch["first"]))
        encoded = self._encode_batch(batch, carried=state.previous)
        encoded = {name: value.map(lambda x: x[:, 0]) for name, value in encoded.items()}
        return Percepts(encoded, {name: self.key(value) for name, value in encoded.items()}, batch)

    @torch.no_grad()
    def step(
        self,
        state: State,
        percepts: Percepts,
        recalled: Encoded | None = None,
        effectors: Iterable[str] | None = None,
        heads: Iterable[str] = (),
        generator: torch.Generator | None = None,
        trunk: bool = True,
    ) -> tuple[State, StepOutput]:
        """One tick: the new state and what to do. The given state is consumed: clone it first to keep it.

        Args:
            recalled: from `encode_recalled`, [B, R, D].
            effectors: which ones to answer for; all by default.
            heads: further heads whose outputs are wanted.
            generator: actions are sampled with it; without, the most likely one is taken.
            trunk: False leaves the window as it is and lets only arcs answer (rollouts and exams of arcs).
        """
        first = percepts.batch["first"][:, 0]
        state.check_rows(len(first))
        body = percepts.batch["senses"].get("body")
        seen = Perceived(percepts.encoded, None if body is None else body[:, 0])
        if trunk:
            self._run_trunk(seen, recalled, first, state.ring)
        for name in percepts.encoded:
            if self.encoder(name).uses_previous:
                batch = percepts.batch
                state.previous[name] = (batch["senses"][name][:, 0], batch["present"][name][:, 0])
        result = StepOutput({}, {}, {}, {}, seen.readout)
        result.outputs.update(self.run_heads(heads, seen))
        for effector in self.effectors if effectors is None else effectors:
            self._answer(effector, seen, percepts, result, generator)
        return state, result

    def _answer(
        self, effector: str, seen: Perceived, percepts: Percepts, result: StepOutput, generator: torch.Generator | None
    ) -> None:
        """Ask the effector's heads in order; a row is decided by the first that fires."""
        names = self.heads_of(effector)
        if not names:
            raise DevmindError(f"No head answers for '{effector}'{nearest(effector, self.effectors)}")
        n = len(percepts.batch["first"])
        open_rows = torch.ones(n, dtype=torch.bool, device=self.device)
        counts = dict.fromkeys(names, 0)
        for name in names:
            tapped = self._tap(self.head_entry(name)["tap"], seen)
            if tapped is None or not bool(open_rows.any()):
                continue
            output = result.outputs.get(name)
            if output is None:
                output = result.outputs[name] = self.head(name)(tapped)
            fires, value = output.fires(), output.answer(generator)
            takes = open_rows & self._sensed(name, percepts, tapped)
            takes = takes if fires is None else takes & fires
            shaped = takes.reshape(n, *[1] * (value.ndim - 1))
            result.action[effector] = torch.where(shaped, value, result.action.get(effector, torch.zeros_like(value)))
            counts[name] = int(takes.sum())
            open_rows = open_rows & ~takes
        result.answered[effector] = counts
        result.acted[effector] = ~open_rows
        result.action.setdefault(effector, torch.zeros(n, device=self.device))

    def _sensed(self, name: str, percepts: Percepts, tapped: Tapped) -> Tensor:
        """Rows in which the head has anything to read, bool [B]: an arc cannot fire on an absent sense."""
        if self.head_entry(name)["tap"] == "raw:body":
            return percepts.batch["present"]["body"][:, 0]
        return tapped.present.any(-1)


def _drop_time(seen: Perceived) -> Perceived:
    """Perceived [N, 1, ...] as [N, ...]."""

    def drop(encoded: Mapping[str, Encoded]) -> dict[str, Encoded]:
        return {name: value.map(lambda x: x[:, 0]) for name, value in encoded.items()}

    readout = None if seen.readout is None else seen.readout[:, 0]
    return Perceived(drop(seen.encoded), None, readout, drop(seen.of_senses))


class _named_init:
    """Within the block, torch's global random numbers come from a seed named by `parts`; outside they are untouched."""

    def __init__(self, *parts: int | str) -> None:
        self.parts = parts
        self.fork = torch.random.fork_rng(devices=[])

    def __enter__(self) -> None:
        self.fork.__enter__()
        torch.manual_seed(derive_seed(*self.parts))

    def __exit__(self, *error: Any) -> None:
        self.fork.__exit__(*error)
