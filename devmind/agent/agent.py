"""The agent: encoders, trunk and heads in one PreTrainedModel, stepped tick by tick or run all at once.

It contains no training, metrics or hardware, and its state is passed in and out. What it is made of stands beside it:
encoders (`encoders.py`), the trunk (`trunk.py`), heads (`heads.py`) and what they read (`taps.py`), and the tracker of
beliefs (`tracker.py`). `saving.py` writes and reads it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from devmind import plugins
from devmind.agent import rows, saving
from devmind.agent.batch import BODY_SIZE, READOUT, RECALLED, RECALLED_BUDGET, Batch, collate, to_device
from devmind.agent.config import AgentConfig, size_named
from devmind.agent.decoders import PreTrainedModel, set_neurons
from devmind.agent.encoders import (
    Encoded,
    EncoderHolder,
    VectorEncoder,
    attempt,
    check_options,
    default_part,
    named_seed,
)
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Effector, Output
from devmind.agent.ring import Ring
from devmind.agent.saving import limit_part_size
from devmind.agent.slots import SlotState
from devmind.agent.state import State
from devmind.agent.taps import (
    Perceived,
    Percepts,
    Tap,
    Tapped,
    TapSpec,
    raw_vectors,
)
from devmind.agent.tracker import SENSE, TRACKER, Beliefs, Tracker
from devmind.agent.trunk import Deep, Trunk, each
from devmind.errors import ConfigError, DevmindError, PluginError, nearest
from devmind.moment import STANDARD_SENSES, Action, Moment
from devmind.seeding import derive_seed

STREAMED = "streamed"
"""The entry of `State.carry` that says by which sense an open Moment may be extended."""
AGE_SCALE = 16.0
"""Ages are encoded as log(1 + seconds) / 16, which is 1 at a hundred days, so that old ones do not dominate a token."""


@dataclass
class StepOutput:
    """The result of one tick of B agents.

    Attributes:
        action: by effector, [B, ...]; zero in rows that no head answered for.
        acted: by effector, whether a head answered, bool [B].
        outputs: by head, the Outputs of the heads that were run.
        answered: by effector and head, the number of the B rows that the head decided.
        features: the readout's feature [B, D]; None if the trunk was not run.
        beliefs: about things in and out of sight; None if the tracker was not run.
        recalled: the tokens [B, R, D] that the trunk was given beside the senses: memories, then beliefs.
    """

    action: dict[str, Tensor] = field(default_factory=dict)
    acted: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    answered: dict[str, dict[str, int]] = field(default_factory=dict)
    features: Tensor | None = None
    beliefs: Beliefs | None = None
    recalled: Encoded | None = None

    def decided(self) -> list[tuple[str, str]]:
        """Each effector with each head that decided for it in one of the rows at least."""
        return [(effector, head) for effector, heads in self.answered.items() for head, count in heads.items() if count]

    def to_action(self, row: int = 0) -> Action:
        """The Action of one agent, as arrays; an effector that no head answered for is not in it."""
        return Action(
            {
                name: np.asarray(value[row].detach().cpu().numpy())
                for name, value in self.action.items()
                if self.acted[name][row]
            }
        )


class Agent(EncoderHolder, PreTrainedModel):
    """One multimodal agent; see the module's docstring, and DESIGN section 3 for the laws of its parts."""

    config_class = AgentConfig
    base_model_prefix = "agent"
    main_input_name = "batch"
    _supports_sdpa = True  # or `set_attn_implementation` could go to "eager" and never back
    config: AgentConfig

    def __init__(self, config: AgentConfig, strict: bool = False, stages: Collection[str] | None = None) -> None:
        """Build every part that `config` names.

        Args:
            strict: a part whose plugin is missing is an error, not a warning.
            stages: build only the parts of these stages, and encoders that their heads tap.
        """
        config._attn_implementation = "eager"  # it has no attention but its decoder's, which `decoders.py` chooses
        super().__init__(config)
        self.encoders, self.heads = nn.ModuleDict(), nn.ModuleDict()
        self.taps: dict[str, Tap] = {}
        self.raw_senses: dict[str, int] = {}
        self.kept_tensors: dict[str, Tensor] = {}
        with named_seed(config.seed, "recalled"):
            self.recalled_type = nn.Parameter(torch.randn(config.width) * 0.3)
            self.age = nn.Linear(1, config.width)
        with named_seed(config.seed, "recalled rank"):
            self.recalled_rank = nn.Parameter(torch.randn(RECALLED_BUDGET, config.width) * 0.3)
        self.add_key_projection()
        with named_seed(config.seed, "trunk"):
            self.trunk = Trunk(config)
        with named_seed(config.seed, "readout"):
            self.readout = nn.Parameter(torch.randn(config.width) * 0.3)
        self.build_parts(strict, stages)
        self.post_init()

    def init_weights(self) -> None:
        """Do nothing: every part has drawn its weights from its own named seed already."""

    # -- parts --------------------------------------------------------------------------------------------------------

    def build_parts(self, strict: bool, stages: Collection[str] | None = None) -> None:
        """Build the parts that the config names; a missing plugin is an error if `strict`, otherwise a warning.

        Args:
            stages: parts of other stages are left out, as if their plugins were missing, except for encoders that a
                head of these stages taps; None: all are built.
        """
        encoders, heads = self.config.encoders, self.config.heads
        if stages is not None:
            heads = [entry for entry in heads if entry["stage"] in stages]
            tapped = {sense for entry in heads for sense in Tap.of(entry["tap"]).senses}
            encoders = [entry for entry in encoders if entry["stage"] in stages or entry["name"] in tapped]
        for build, entries in ((self.build_encoder, encoders), (self._build_head, heads)):
            for entry in entries:
                attempt(build, entry, strict)
        for entry in heads:
            if entry["name"] in self.heads:
                attempt(self._fit_head, entry, strict)
        self._note_raw_senses()

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
        self._complete()

    def add_head(
        self,
        name: str,
        part: str,
        tap: TapSpec = "trunk",
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
            standby: it answers only where it is named (`standing`, the key `answers`), so the heads that acted before
                still do.

        Raises:
            PluginError: there is no such part, the name is taken, or the tap's sense has no encoder.
        """
        _check_new(name, self.config.heads, "head")
        entry: dict[str, Any] = {"name": name, "part": part, "stage": stage, "effector": effector}
        entry |= {"tap": tap if isinstance(tap, str) else list(tap), "options": dict(options or {})}
        entry |= ({"recalls": True} if recalls else {}) | ({"labels": list(labels)} if labels else {})
        entry |= {"standby": True} if standby else {}
        self._build_head(entry)
        self._fit_head(entry)
        self._tell_of_silence(entry)
        self.config.heads = [*self.config.heads, entry]
        self._complete()

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

    def _build_head(self, entry: Mapping[str, Any]) -> None:
        factory, tap = plugins.load("parts", entry["part"]), Tap.of(entry["tap"], self.tokens_of)
        inlet = self.inlet(tap)
        check_options(factory, entry, inlet)
        with named_seed(self.config.seed, "head", entry["name"]):
            head = factory(inlet, **entry["options"])
        self.heads[entry["name"]], self.taps[entry["name"]] = head.to(self.device), tap

    def _fit_head(self, entry: Mapping[str, Any]) -> None:
        """Bind a head that was built, and let it declare its effector; take it out if it does not fit."""
        name, effector = entry["name"], entry["effector"]
        try:
            self._bind(name)
            with torch.random.fork_rng(devices=[]):
                output = _try_out(self.head(name)) if effector else None
            if output is not None:
                answer = output.answer()
                if self.declared(effector) is None:
                    shape = answer.shape[2:] if output.horizon > 1 else answer.shape[1:]
                    dtype = "float32" if answer.is_floating_point() else "int64"
                    self.add_effector(effector, shape, dtype, output.horizon)
                declared = self.declared(effector)
                assert declared is not None
                declared.check(name, output, answer)
        except PluginError:
            del self.heads[name], self.taps[name]
            raise

    def _bind(self, name: str) -> None:
        head = self.heads[name]
        if isinstance(head, Head):
            head.bind(self, self.taps[name])

    def _complete(self) -> None:
        """Tell all parts of one another, now that there is another one."""
        self._note_raw_senses()
        for name in self.heads:
            self._bind(name)

    def _tell_of_silence(self, new: Mapping[str, Any]) -> None:
        """Warn if a head can never answer, because an earlier head of its effector and tap always fires."""
        output = _try_out(self.head(new["name"])) if new["effector"] else None
        if output is None or output.fires() is not None or new.get("standby"):
            return
        for name in self.heads_of(new["effector"]):
            other = _try_out(self.head(name))
            if other is not None and other.fires() is None and self.tap_of(name) == self.tap_of(new["name"]):
                warnings.warn(
                    f"Both '{name}' and '{new['name']}' always fire for '{new['effector']}' and tap the same: only "
                    f"'{name}', which was added first, will answer. Ask the other by name, or give it a threshold.",
                    stacklevel=3,
                )

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

    def inlet(self, tap: Tap | TapSpec) -> Inlet:
        """The shape of what a head with this tap reads; PluginError if its sense has no encoder."""
        tap, width = Tap.of(tap, self.tokens_of), self.config.width
        for sense in tap.raw:
            if sense != "body" and self.encoder(sense).sense_dims != 1:
                raise PluginError(f"Only a vector sense can be tapped raw; '{sense}' is not one. Tap its tokens.")
        widest = max(map(self._numbers_of, tap.raw), default=BODY_SIZE)
        if len(tap.raw) == len(tap.parts):
            return Inlet(widest, len(tap.parts))
        if tap.raw and width < widest:
            raise PluginError(
                f"A tap with raw numbers beside tokens needs an agent of width {widest} or more; got {width}."
            )
        maps = {name: size for sense in tap.encoded for name, size in self.encoder(sense).map_channels.items()}
        return Inlet(width, sum(part.n_tokens for part in tap.parts), maps)

    def tokens_of(self, sense: str) -> int:
        """Number of tokens of a sense, or of recalled memories (RECALLED); PluginError if there is no encoder."""
        return RECALLED_BUDGET if sense == RECALLED else self.encoder(sense).n_tokens

    def _note_raw_senses(self) -> None:
        """Note in `raw_senses` the body and the vector senses that a head taps raw, each with the most numbers that it
        may have."""
        senses = {"body"} | {sense for tap in self.taps.values() for sense in tap.raw}
        self.raw_senses = {sense: self._numbers_of(sense) for sense in senses}

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
        return self.taps[name]

    def heads_of(self, effector: str, standby: bool = False) -> list[str]:
        """The heads that answer for `effector`, in order: arcs first, heads that tap the trunk last.

        Args:
            standby: include heads that answer only where they are named.
        """
        every = [entry for entry in self._present(self.config.heads, self.heads) if entry["effector"] == effector]
        eligible = [entry for entry in every if standby or not entry.get("standby")]
        return [entry["name"] for entry in sorted(eligible, key=lambda entry: self.taps[entry["name"]].on_trunk)]

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

    def parts(self) -> dict[tuple[str, str], list[nn.Parameter]]:
        """Every parameter by (part, stage), for optimizer groups: ("trunk", stage), ("encoder.sight", stage), ..."""
        grown: dict[tuple[str, str], list[nn.Parameter]] = {}
        layers = self.trunk.decoder.layers[self.trunk.n_layers - len(self.config.grown) :]
        for stage, layer in zip(self.config.grown, layers, strict=True):
            grown.setdefault(("trunk", stage), []).extend(layer.parameters())
        later = {id(parameter) for parameters in grown.values() for parameter in parameters}
        own = [*self.trunk.parameters(), self.readout, self.recalled_type, self.recalled_rank, *self.age.parameters()]
        born = ("trunk", self.config.trunk_stage)
        grown[born] = [*(p for p in own if id(p) not in later), *grown.get(born, [])]
        return grown | self.part_parameters()

    def grow(
        self, layers: int, stage: str = "newborn", through: Mapping[str, str] | None = None, neurons: int = 0
    ) -> None:
        """Append `layers` trunk layers of `stage` with zero output projections, so that no answer changes at first.

        Older states have too few layers: make new ones.

        Args:
            neurons: the MLP of every layer that is there gains so many, born as in a lesson that grows.
            through: which tokens go through the layers: senses or READOUT, each with the sense that has to be present
                in the same Moment. All other tokens skip them. By default all tokens go through. A sense that streams
                lets only its own tokens and the readout through, as the others are computed before it comes.

        Raises:
            ConfigError: this stage has already grown layers for other tokens.
        """
        if neurons:
            from devmind.algorithms.growth import birth
        for number, count in enumerate(self.neurons() if neurons else ()):
            like = self.trunk.decoder.layers[number].mlp.down_proj.weight
            generator = torch.Generator().manual_seed(derive_seed(self.config.seed, "neurons", number, count))
            self.add_neurons(number, *birth(like.new_zeros(len(like), len(like)), neurons, generator))
        groups, before = list(dict.fromkeys(self.config.grown)), self.config.deep.get(stage)
        if not layers:
            return
        if stage in groups and before != (None if through is None else dict(through)):
            raise ConfigError(
                f"All layers that a stage grows are for the same tokens: '{stage}' has grown some for "
                f"{', '.join(before or ['all'])}; got {', '.join(through or ['all'])}."
            )
        if through is not None:
            self.config.deep = {**self.config.deep, stage: dict(through)}
        self.trunk.grow(layers, self.config.seed, groups.index(stage) if stage in groups else len(groups))
        self.config.layers = self.trunk.n_layers
        self.config.grown = [*self.config.grown, *[stage] * layers]
        if self.config.neurons:
            self.config.neurons = self.neurons()
        if self.config.trunk is not None:
            self.config.trunk = self.trunk.decoder.config.to_dict()

    def ensure_grown(self, stage: str, through: Mapping[str, str]) -> None:
        """`grow` as many layers as a stage adds at the agent's size, unless this stage has grown some."""
        if stage not in self.config.grown:
            self.grow(size_named(self.config.size).grown, stage, through)

    def neurons(self) -> list[int]:
        """The number of neurons of the MLP of each of the trunk's layers."""
        return [layer.mlp.down_proj.in_features for layer in self.trunk.decoder.layers]

    def set_neurons(self, layer: int, neurons: int) -> None:
        """Cut a trunk layer's MLP to its first `neurons` neurons, or add silent ones; they are new parameters."""
        set_neurons(self.trunk.decoder.layers[layer].mlp, neurons)
        self.config.neurons = self.neurons()

    @torch.no_grad()
    def add_neurons(self, layer: int, gate: Tensor, up: Tensor, down: Tensor) -> None:
        """Add neurons to a trunk layer's MLP: their rows [n, D] of both incoming matrices and columns [D, n]."""
        before = self.neurons()[layer]
        self.set_neurons(layer, before + len(gate))
        mlp = self.trunk.decoder.layers[layer].mlp
        for linear, new in ((mlp.gate_proj, gate), (mlp.up_proj, up), (mlp.down_proj, down.T)):
            rows = linear.weight.T if linear is mlp.down_proj else linear.weight
            rows[before:] = new

    @torch.no_grad()
    def keep_neurons(self, layer: int, alive: Tensor) -> None:
        """Free all neurons of a trunk layer's MLP but `alive`, int64; optimizers keep its parameters, now smaller."""
        mlp = self.trunk.decoder.layers[layer].mlp
        for linear, dim in ((mlp.gate_proj, 0), (mlp.up_proj, 0), (mlp.down_proj, 1)):
            linear.weight.grad = None
            linear.weight.data = linear.weight.data.index_select(dim, alive)
            linear.out_features, linear.in_features = linear.weight.shape
        self.config.neurons = self.neurons()

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load a state of this agent, also one from before or after neurons were born or died in its trunk."""
        for layer, neurons in enumerate(self.neurons()):
            saved = state_dict.get(f"trunk.decoder.layers.{layer}.mlp.down_proj.weight")
            if saved is not None and saved.shape[1] != neurons:
                self.set_neurons(layer, saved.shape[1])
        return super().load_state_dict(state_dict, *args, **kwargs)

    def set_window(self, moments: int, tokens: int | None = None) -> None:
        """Let the trunk see the last `moments` Moments, and at most `tokens` tokens (by default as many as before).

        No weights change, and slots are written as often as before. Older states do not fit: make new ones.

        Raises:
            ConfigError: `moments` or `tokens` is below 1.
        """
        config = AgentConfig(size=self.config.size, window=moments, window_tokens=tokens or self.config.window_tokens)
        self.config.window, self.config.window_tokens = config.window, config.window_tokens
        self.trunk.window, self.trunk.limit = config.window, config.window_tokens

    @contextmanager
    def narrowed(self, share: float) -> Iterator[None]:
        """Shorten the trunk's window, in the block, to this share (0 to 1) of its Moments; slots carry the rest."""
        moments, tokens = self.config.window, self.config.window_tokens
        self.set_window(max(1, round(share * moments)), tokens)
        try:
            yield
        finally:
            self.set_window(moments, tokens)

    @staticmethod
    def _present(entries: Iterable[Mapping[str, Any]], modules: nn.ModuleDict) -> list[Mapping[str, Any]]:
        known = set(modules)  # a look-up in the module itself costs a call for each name
        return [entry for entry in entries if entry["name"] in known]

    # -- all at once --------------------------------------------------------------------------------------------------

    def forward(
        self,
        batch: Batch,
        heads: Iterable[str] | None = None,
        short_term: bool = True,
        targets: Mapping[str, Any] | None = None,
    ) -> dict[str, Output]:
        """Outputs [B, T, ...] of `heads` (all by default) for a Batch of consecutive Moments.

        A row starts with an empty window and the learned slots. A Moment sees nothing before the `first` of its
        episode. Only the parts that the heads need are run.

        Args:
            short_term: False switches short-term memory off: a window of one Moment, no slots. Encoders that see
                change still see it.
            targets: by head, the right answers, for heads that are given them in teaching (`Head.takes_targets`).
        """
        names = list(self.heads if heads is None else heads)
        return self.run_heads(names, self.perceive(batch, [self.tap_of(name) for name in names], short_term), targets)

    @torch.no_grad()
    def evaluate(
        self, senses: Mapping[str, Tensor], heads: Iterable[str], present: Mapping[str, Tensor] | None = None
    ) -> dict[str, Output]:
        """Outputs [N, ...] of heads for N unrelated Moments, without state or slots, as a search needs them.

        The result equals that of `forward` with `short_term=False` on N rows of one Moment.

        Args:
            senses: readings [N, ...] by sense; present: bool [N] by sense, everywhere by default.
        """
        names = list(heads)
        taps = [self.tap_of(name) for name in names]
        senses, present = to_device(dict(senses), self.device), to_device(dict(present or {}), self.device)
        raw = raw_vectors(senses, present, self.raw_senses)
        shared, apart = self._passes(taps)
        seen = Perceived(self.encode_senses(senses, present, names=self._wanted(taps, shared)), raw)
        if shared or apart:
            seen = seen.map(lambda x: x[:, None])
            first = torch.ones(len(next(iter(senses.values()))), 1, dtype=torch.bool, device=self.device)
            if shared:
                self._run_trunk(seen, None, first, short_term=False)
            self._run_apart(apart, seen, first, short_term=False)
            seen = seen.map(lambda x: x[:, 0])
        return self.run_heads(names, seen)

    def perceive(self, batch: Batch, taps: Iterable[Tap | TapSpec], short_term: bool = True) -> Perceived:
        """Run a Batch [B, T, ...] as far as the taps need it: the trunk runs only if it is tapped.

        Args:
            short_term: as for `forward`.
        """
        batch, parsed = to_device(batch, self.device), [Tap.of(tap) for tap in taps]
        shared, apart = self._passes(parsed)
        seen = self.encode_batch(batch, self._wanted(parsed, shared))
        if shared:
            recalled = self.encode_recalled(batch["recalled"]) if "recalled" in batch else None
            self._run_trunk(seen, recalled, batch["first"], short_term)
        self._run_apart(apart, seen, batch["first"], short_term)
        return seen

    def think(
        self, seen: Perceived, first: Tensor, short_term: bool = True, recalled: Encoded | None = None
    ) -> Perceived:
        """Run the trunk on the result of `encode_batch`, which is not changed; first bool [B, T].

        It serves lessons that do not train encoders: a Batch is encoded once, and goes through the trunk as often as it
        is learned from.

        Args:
            recalled: from `encode_recalled`, tokens [B, T, R, D], if anything was recalled.
        """
        thought = Perceived(dict(seen.encoded), seen.raw)
        first = first.to(self.device)
        self._run_trunk(thought, recalled, first, short_term)
        self._run_apart([sense for sense in self.apart if sense in seen.encoded], thought, first, short_term)
        return thought

    def _passes(self, taps: Iterable[Tap]) -> tuple[bool, list[str]]:
        """The trunk passes that taps need: whether the shared one, and the senses with a pass of their own."""
        tapped = {part.sense for tap in taps for part in tap.parts if part.on_trunk}
        apart = [sense for sense in self.apart if sense in tapped]
        return len(tapped) > len(apart), apart

    def _wanted(self, taps: Iterable[Tap], shared: bool) -> set[str]:
        """The senses to encode: those that taps name, and for the `shared` pass all that enter it."""
        return {sense for tap in taps for sense in tap.senses} | set(self.entering if shared else ())

    def encode_batch(
        self,
        batch: Batch,
        names: Iterable[str] | None = None,
        carried: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> Perceived:
        """Encode a Batch [B, T, ...].

        Encoders that use the previous tick get that of the same row, and `carried` for the first Moment.

        Args:
            names: the senses to encode; by default all that have an encoder.
            carried: readings [B, ...] and presence bool [B] of the tick before the batch, by sense.
        """
        previous, senses, present = {}, dict(batch["senses"]), dict(batch["present"])
        for name, encoder in self.in_order.items():
            last = (carried or {}).get(name)
            if encoder.effector is not None:
                senses.pop(name, None)
                done = _done(batch, encoder.effector, last)
                if done is not None:
                    senses[name], present[name] = _one_later(*done, last, batch["first"])
            elif encoder.uses_previous and (read := encoder.of or name) in senses:
                previous[name] = _one_later(senses[read], present[read], last, batch["first"])
        encoded = self.encode_senses(senses, present, previous, names)
        return Perceived(encoded, raw_vectors(batch["senses"], batch["present"], self.raw_senses))

    def encode_recalled(self, recalled: Batch) -> Encoded:
        """Recalled entries as one token each, with type, rank and age: tokens [..., R, D], presence [..., R].

        A token is the mean over its entry's senses, each of which is the mean over its own tokens, so that a word has
        the same weight as a picture. The rank is the order of the entries: the most similar one first (for beliefs, the
        one that is named now).

        Args:
            recalled: from `collate_recalled`: senses [..., R, *], present and valid bool [..., R], age_s [..., R].
        """
        recalled = to_device(recalled, self.device)
        age = self.age(recalled["age_s"][..., None].clamp_min(0).log1p() / AGE_SCALE)
        total, count = torch.zeros_like(age), torch.zeros_like(age[..., :1])
        for encoded in self.encode_senses(recalled["senses"], recalled["present"], names=self.entering).values():
            total = total + encoded.mean()
            count = count + encoded.present.any(-1, keepdim=True)
        tokens = total / count.clamp_min(1) + age + self.recalled_type + self.recalled_rank[: age.shape[-2]]
        return Encoded(tokens, recalled["valid"] & (count[..., 0] > 0))

    def run_heads(
        self,
        names: Iterable[str],
        seen: Perceived | Mapping[str, Encoded],
        targets: Mapping[str, Any] | None = None,
    ) -> dict[str, Output]:
        """Outputs of heads on what was perceived; for heads that tap senses, a mapping of encoded senses is enough.

        Raises:
            DevmindError: a head taps something that was not sensed, or the trunk although it was not run.
        """
        seen, names = seen if isinstance(seen, Perceived) else Perceived(dict(seen)), list(names)
        outputs = {}
        if self.config.one_mind and not seen.of_senses and any(self.tap_of(name).on_trunk for name in names):
            seen = self._think_alone(seen)
        for name in names:
            tapped = self._read(name, seen)
            if tapped is None:
                raise DevmindError(
                    f"The head '{name}' taps '{self.tap_of(name)}', which is not among what was perceived "
                    f"({', '.join(seen.encoded) or 'nothing'}{'' if seen.readout is None else ', trunk'})."
                )
            outputs[name] = self.head(name).respond(tapped, (targets or {}).get(name))
        return outputs

    def _think_alone(self, seen: Perceived) -> Perceived:
        """What was sensed without the trunk, with its features of each Moment by itself."""
        if not seen.encoded:
            return seen
        lead = next(iter(seen.encoded.values())).present.shape[:-1]
        first = torch.ones(lead.numel(), 1, dtype=torch.bool, device=self.device)
        flat = seen.map(lambda x: x.reshape(-1, 1, *x.shape[len(lead) :]))
        return self.think(flat, first, short_term=False).map(lambda x: x.reshape(*lead, *x.shape[2:]))

    def run_head(self, name: str, seen: Perceived) -> Output:
        """The output of one head, as `run_heads` gives it."""
        return self.run_heads([name], seen)[name]

    def _read(self, name: str, seen: Perceived) -> Tapped | None:
        tap = self.tap_of(name)
        if RECALLED in tap.senses and RECALLED not in seen.of_senses and seen.readout is not None:
            nothing = seen.readout.new_zeros(*seen.readout.shape[:-1], RECALLED_BUDGET, self.config.width)
            seen.of_senses[RECALLED] = Encoded(nothing, torch.zeros_like(nothing[..., 0], dtype=torch.bool))
        return tap.read(seen)

    # -- the trunk ----------------------------------------------------------------------------------------------------

    def _assemble(
        self,
        encoded: Mapping[str, Encoded],
        recalled: Encoded | None,
        lead: Sequence[int],
        closes: bool = True,
        memories: int = RECALLED_BUDGET,
    ) -> tuple[Tensor, Tensor, dict[str, slice]]:
        """All tokens of a Moment in their fixed order: tokens [..., n, D], presence [..., n], slices by sense.

        Args:
            closes: the readout closes the Moment; otherwise more tokens will follow.
            memories: number of memories among the recalled tokens; they come first, and beliefs follow.
        """
        tokens, present, places = [self.readout.new_zeros(*lead, 0, self.config.width)], [], {}
        present.append(torch.ones(*lead, 0, dtype=torch.bool, device=self.device))
        at = 0
        if recalled is not None:
            tokens.append(recalled.tokens)
            present.append(recalled.present)
            at = recalled.tokens.shape[-2]
            if memories:
                places[RECALLED] = slice(0, min(memories, at))
        for name in self.entering:
            if name in encoded:
                tokens.append(encoded[name].tokens + self.encoder(name).type_embedding)
                present.append(encoded[name].present)
                places[name] = slice(at, at + tokens[-1].shape[-2])
                at = places[name].stop
        if closes:
            tokens.append(self.readout.expand(*lead, 1, -1))
            present.append(torch.ones(*lead, 1, dtype=torch.bool, device=self.device))
        return torch.cat(tokens, -2), torch.cat(present, -1), places

    def _sensed(self, present: Tensor, places: Mapping[str, slice]) -> Tensor:
        """A bit for each of `_doors`: whether the Moment has that sense, int64 [...]."""
        bits = present.new_zeros(present.shape[:-1], dtype=torch.int64)
        for bit, sense in enumerate(self._doors()):
            if sense in places:
                bits = bits | present[..., places[sense]].any(-1).long() << bit
        return bits

    def _deep(self, sensed: Tensor, n: int, places: Mapping[str, slice], closes: bool = True) -> Deep:
        """Which of a Moment's `n` tokens go through each stage's grown layers, bool [..., n].

        Args:
            sensed: from `_sensed`, of the whole Moment.
            closes: the last token is the readout.
        """
        doors, found = self._doors(), list[Tensor | bool]()
        for stage in dict.fromkeys(self.config.grown):
            if stage not in self.config.deep:
                found.append(True)
                continue
            deep = torch.zeros(*sensed.shape, n, dtype=torch.bool, device=sensed.device)
            for sense, beside in self.config.deep[stage].items():
                at = slice(n - 1, n) if sense == READOUT and closes else places.get(sense)
                if at is not None:
                    deep[..., at] = (sensed >> doors.index(beside) & 1).bool()[..., None]
            found.append(deep)
        return tuple(found)

    def _doors(self) -> list[str]:
        """The senses on whose presence it depends which tokens go through grown layers."""
        return list(dict.fromkeys(beside for through in self.config.deep.values() for beside in through.values()))

    def _run_trunk(self, seen: Perceived, recalled: Encoded | None, first: Tensor, short_term: bool = True) -> None:
        """Fill in the trunk's features of a Batch, first bool [B, T]."""
        tokens, present, places = self._assemble(seen.encoded, recalled, first.shape)
        deep = self._deep(self._sensed(present, places), present.shape[-1], places)
        packed, used = _pack(tokens, present, deep)
        features = _unpack(self.trunk(*packed[:2], first, short_term, packed[2]), tokens.shape, used)
        seen.readout = features[..., -1, :]
        seen.of_senses = {name: Encoded(features[..., at, :], present[..., at]) for name, at in places.items()}

    def _run_apart(self, senses: Iterable[str], seen: Perceived, first: Tensor, short_term: bool = True) -> None:
        """Fill in the trunk's features of senses that go through it by themselves, if the Batch has them.

        Each has its own window, without slots and readout, so other senses have no effect on it.
        """
        for sense in senses:
            if sense not in seen.encoded:
                continue
            encoded, places = seen.encoded[sense], {sense: slice(None)}
            tokens, present = encoded.tokens + self.encoder(sense).type_embedding, encoded.present
            features = torch.zeros_like(tokens)
            if bool(present.any()):
                deep = self._deep(self._sensed(present, places), present.shape[-1], places, closes=False)
                packed, used = _pack(tokens, present, deep)
                features = self.trunk(*packed[:2], first, short_term, packed[2], slots=False)
                features = _unpack(features, tokens.shape, used)
            seen.of_senses[sense] = Encoded(features, present)

    def _step_trunk(
        self,
        seen: Perceived,
        recalled: Encoded | None,
        first: Tensor,
        state: State,
        closes: bool = True,
        memories: int = RECALLED_BUDGET,
    ) -> None:
        """Run the trunk for one tick, first bool [B]; the Moment stays open unless it `closes`.

        Senses with a pass of their own go first, so that a hook on the trunk's attention sees the readout's pass last.
        """
        apart = dict[str, Encoded]()
        for sense, ring in state.apart.items():
            ring.begin(first)
            if sense in seen.encoded:
                apart[sense] = self._extend(sense, seen.encoded[sense], ring)
            ring.end()
        tokens, present, places = self._assemble(seen.encoded, recalled, first.shape, closes, memories)
        sensed = self._sensed(present, places)
        packed, used = _pack(tokens, present, self._deep(sensed, present.shape[-1], places, closes))
        features = self.trunk.step(*packed[:2], first, state.ring, state.slots, packed[2], closes)
        features = _unpack(features, tokens.shape, used)
        state.ring.sensed |= sensed
        seen.readout = features[..., -1, :] if closes else None
        shared = {name: Encoded(features[..., at, :], present[..., at]) for name, at in places.items()}
        seen.of_senses = apart | shared

    def _extend(self, sense: str, encoded: Encoded, ring: Ring) -> Encoded:
        """Features of further tokens [B, n, D] of a sense in the open Moment of a ring."""
        places = {sense: slice(None)}
        ring.sensed |= self._sensed(encoded.present, places)
        deep = self._deep(ring.sensed, encoded.present.shape[-1], places, closes=False)
        packed, used = _pack(encoded.tokens + self.encoder(sense).type_embedding, encoded.present, deep)
        features = _unpack(self.trunk.extend(*packed[:2], ring, packed[2]), encoded.tokens.shape, used)
        return Encoded(features, encoded.present)

    def _end_trunk(self, state: State) -> Tensor:
        """Close the open Moment with its readout; gives the readout's feature [B, D]."""
        n = len(state)
        ones = torch.ones(n, 1, dtype=torch.bool, device=self.device)
        deep = self._deep(state.ring.sensed, 1, {})
        feature = self.trunk.extend(self.readout.expand(n, 1, -1), ones, state.ring, deep)[:, 0]
        self.trunk.end(feature, state.ring, state.slots)
        return feature

    # -- tick by tick -------------------------------------------------------------------------------------------------

    def new_state(self, n: int = 1, short_term: bool = True) -> State:
        """The empty state of `n` agents that step together.

        Args:
            short_term: False switches short-term memory off, as in `forward`.
        """
        window, limit, senses = self.config.window if short_term else 1, self.config.window_tokens, self.apart
        rings = [Ring(n, window, self.trunk.n_layers, self.device, limit) for _ in range(1 + len(senses))]
        slots = self.trunk.slots if short_term else None
        apart = dict(zip(senses, rings[1:], strict=True))
        return State(rings[0], slots=None if slots is None else SlotState.empty(n, slots), apart=apart)

    def _check(self, state: State, batch: Batch) -> None:
        window, limit = self.config.window, self.config.window_tokens
        state.check(len(batch["first"]), self.trunk.n_layers, self.config.slots or 0, window, limit, self.apart)

    @torch.no_grad()
    def encode(self, state: State, moments: Moment | Sequence[Moment] | Batch) -> Percepts:
        """Encode one tick: tokens, maps and keys by sense. The state is not changed.

        Args:
            moments: a Moment, one for each of the state's agents, or a Batch with T = 1 (`collate_tick`).
        """
        if isinstance(moments, Moment):
            moments = [moments]
        batch = moments if isinstance(moments, dict) else collate([[moment] for moment in moments])
        batch = to_device(batch, self.device)
        self._check(state, batch)
        before = {sense: state.carry.get(f"encoder.{sense}") for sense in self.sense_order}
        carried = {sense: (kept["reading"], kept["present"]) for sense, kept in before.items() if kept is not None}
        seen = self.encode_batch(batch, carried=carried).map(lambda x: x[:, 0])
        keys = {name: self.key(value) for name, value in seen.encoded.items() if self.encoder(name).of is None}
        return Percepts(seen, keys, batch)

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
        beliefs: bool = False,
        standing: Mapping[str, Sequence[str]] | None = None,
    ) -> tuple[State, StepOutput]:
        """Run one tick; gives the new state and the result. The given state is consumed: clone it first to keep it.

        Args:
            recalled: memories from `encode_recalled`, tokens [B, R, D].
            effectors: those to answer for; all by default.
            heads: further heads whose outputs are wanted.
            generator: samples the actions; without it the most likely action is taken.
            trunk: False leaves the window as it is and lets only arcs answer (rollouts and exams of arcs).
            beliefs: update the tracker's beliefs, and give them to the trunk after the recalled tokens.
            standing: by effector, the heads that are asked, in order; by default all of the effector's heads, arcs
                first. An effector that is not in `standing` does nothing.
        """
        self._open(state, percepts)
        held = self._track(state, percepts) if beliefs else None
        if trunk:
            memories = 0 if recalled is None else recalled.tokens.shape[1]
            recalled = self._with_beliefs(recalled, held, percepts)
            self._step_trunk(percepts.seen, recalled, percepts.batch["first"][:, 0], state, memories=memories)
        result = self._act(state, percepts.seen, effectors, heads, generator, standing)
        result.beliefs, result.recalled = held, recalled
        return state, result

    def _track(self, state: State, percepts: Percepts) -> Beliefs | None:
        tracker = self.tracker
        if tracker is None:
            return None
        before = state.carry.get(TRACKER) or rows.initial_carry(tracker.carry_spec, len(state))
        beliefs, after = tracker.track(percepts, before, self.run_head)
        if after is not before:  # before anything is seen there is nothing to carry
            state.carry[TRACKER] = after
        return beliefs

    def _with_beliefs(self, recalled: Encoded | None, held: Beliefs | None, percepts: Percepts) -> Encoded | None:
        """Memories and beliefs as one Encoded, memories first; the memories alone if no row believes in anything."""
        if held is None or self.tracker is None or SENSE not in self.encoders or not held.confirmed.any():
            return recalled
        believed = self.encode_recalled(self.recall_beliefs(held, percepts))
        if recalled is None:
            return believed
        return Encoded(
            torch.cat((recalled.tokens, believed.tokens), 1), torch.cat((recalled.present, believed.present), 1)
        )

    def recall_beliefs(self, beliefs: Beliefs, percepts: Percepts) -> Batch:
        """Beliefs as `encode_recalled` takes them, those that this Moment's words name first: tensors [B, 4, ...]."""
        tracker = self.tracker
        if tracker is None:
            raise DevmindError("This agent keeps no beliefs; give it a tracker with `add_tracker`.")
        return tracker.entries(beliefs, percepts, len(self.labels_of(tracker.detects)), self.run_head)

    @torch.no_grad()
    def begin(
        self, state: State, percepts: Percepts, recalled: Encoded | None = None, heads: Iterable[str] = ()
    ) -> tuple[State, StepOutput]:
        """Open a Moment that is still being read or written; `extend` adds to it, and `end` closes it and acts.

        `begin`, `extend` and `end` give the same result as `step` with the whole Moment at once.

        Args:
            heads: heads that are run now; they may tap senses, and the trunk's features of a sense's tokens.
        """
        self._open(state, percepts)
        self._step_trunk(percepts.seen, recalled, percepts.batch["first"][:, 0], state, closes=False)
        state.carry[STREAMED] = self._streamed(percepts)
        return state, StepOutput(outputs=self.run_heads(heads, percepts.seen))

    @torch.no_grad()
    def extend(
        self,
        state: State,
        sense: str,
        value: Tensor,
        present: Tensor | None = None,
        heads: Iterable[str] = (),
        began: Percepts | None = None,
    ) -> tuple[State, StepOutput]:
        """Add tokens to the open Moment's last sense, which must stream; senses behind it in the agent's order may have
        no token in this Moment.

        Args:
            value: a reading of the sense for each row, [B, ...]; present: bool [B], the rows that are extended, by
                default all.
            heads: heads that are run on the new tokens; they tap this sense or the trunk's features of it.
            began: the percepts that the Moment began with, for heads that tap its other senses as well.

        Raises:
            DevmindError: the sense does not stream, or a row's Moment is not open.
        """
        streaming, begun = self._streaming(), state.carry.get(STREAMED)
        last = 0 if begun is None else int(begun.max())
        if sense not in streaming or last > streaming.index(sense) + 1:
            which = f"that is '{streaming[last - 1]}'" if streaming else "this agent has none"
            raise DevmindError(
                f"A Moment is extended by the sense that streams and stands last ({which}); got '{sense}'."
            )
        state.carry[STREAMED] = torch.full((len(state),), streaming.index(sense) + 1, device=self.device)
        encoded = self.encode_senses({sense: value}, None if present is None else {sense: present})[sense]
        seen = Perceived({sense: encoded}, of_senses={sense: self._extend(sense, encoded, state.ring)})
        if began is not None:
            seen.encoded = {**began.encoded, **seen.encoded}
        return state, StepOutput(outputs=self.run_heads(heads, seen))

    def _streaming(self) -> list[str]:
        return [name for name in self.entering if self.encoder(name).streams]

    def _streamed(self, percepts: Percepts) -> Tensor:
        """Number of the last streaming sense with tokens in each row, from 1, int64 [B]; 0: none has any."""
        found = torch.zeros(len(percepts.batch["first"]), dtype=torch.int64, device=self.device)
        for number, name in enumerate(self._streaming(), 1):
            if name in percepts.encoded:
                found[percepts.encoded[name].present.any(-1)] = number
        return found

    @torch.no_grad()
    def end(
        self,
        state: State,
        percepts: Percepts,
        effectors: Iterable[str] | None = None,
        heads: Iterable[str] = (),
    ) -> tuple[State, StepOutput]:
        """Close the open Moment with its readout and act, as `step` does; `percepts` are those that it began with."""
        percepts.seen.readout = self._end_trunk(state)
        return state, self._act(state, percepts.seen, effectors, heads, None)

    def _open(self, state: State, percepts: Percepts) -> None:
        """Check the state, reset rows that begin an episode, and keep readings that the next tick is compared with."""
        batch = percepts.batch
        self._check(state, batch)
        state.reset(batch["first"][:, 0])
        for name, encoder in self.in_order.items():
            if encoder.uses_previous or encoder.effector is not None:
                state.carry.pop(f"encoder.{name}", None)
                if name in percepts.encoded and encoder.uses_previous:
                    read = encoder.of or name
                    reading, present = batch["senses"][read][:, 0], batch["present"][read][:, 0]
                    state.carry[f"encoder.{name}"] = {"reading": reading, "present": present}

    def note_actions(
        self, state: State, actions: Mapping[str, Tensor], acted: Mapping[str, Tensor] | None = None
    ) -> None:
        """Tell the agent what it did in the Moment just stepped, for encoders that read it in the next one.

        `step` notes its own answers; call this where something else is done instead (by a teacher, a search, noise).

        Args:
            actions: [B, ...] by effector; acted: bool [B] by effector, by default true in every row.
        """
        for name, encoder in self.in_order.items():
            effector = encoder.effector
            if effector is not None and effector in actions:
                done = torch.as_tensor(actions[effector], device=self.device)
                here = (acted or {}).get(effector)
                here = torch.ones(len(done), dtype=torch.bool) if here is None else torch.as_tensor(here)
                state.carry[f"encoder.{name}"] = {"reading": done, "present": here.to(self.device)}

    # -- answers ------------------------------------------------------------------------------------------------------

    def _act(
        self,
        state: State,
        seen: Perceived,
        effectors: Iterable[str] | None,
        heads: Iterable[str],
        generator: torch.Generator | None,
        standing: Mapping[str, Sequence[str]] | None = None,
    ) -> StepOutput:
        """Run the wanted heads, and for each effector the heads that may answer for it."""
        result = StepOutput(features=seen.readout)
        for name in heads:
            if self._ask(name, seen, state, result, generator) is None:
                self.run_heads([name], seen)  # raises the error that names the missing sense
        for effector in self.effectors if effectors is None else effectors:
            names = self.heads_of(effector) if standing is None else standing.get(effector, ())
            self._answer(effector, names, seen, state, result, generator)
        self.note_actions(state, result.action, result.acted)
        return result

    def _answer(
        self,
        effector: str,
        names: Sequence[str],
        seen: Perceived,
        state: State,
        result: StepOutput,
        generator: torch.Generator | None,
    ) -> None:
        """Ask heads in order until every row of an effector is decided.

        An arc cannot fire on a sense that its row lacks. Once every row is decided, the remaining heads are not run. A
        row that is in the middle of a sequence continues it. If a head before the one that gave the sequence fires, the
        rest is dropped. `State.carry` has the rest of the sequences as "actions.<name>": `rest` [B, H - 1, *shape] and
        `left` int64 [B], how many of these actions are still to be carried out.
        """
        if effector not in self.effectors:
            raise DevmindError(f"No head of this agent answers for '{effector}'{nearest(effector, self.effectors)}")
        # If a head could not be tried when it was added, its first answer sets the effector's form.
        form = self.declared(effector) or Effector(effector)
        action: Tensor | None = None
        open_rows = torch.ones(len(state), dtype=torch.bool)
        counts = dict.fromkeys(names, 0)
        for name in counts:
            waiting: Any = state.carry.pop(f"actions.{name}", None)
            if waiting is not None:
                open_rows = open_rows.to(waiting["left"].device)
            follows = open_rows & (waiting["left"] > 0) if waiting is not None else torch.zeros_like(open_rows)
            reply = None
            if bool((open_rows & ~follows).any()):
                reply = self._ask(name, seen, state, result, generator)
            answers = _Sequence(waiting["rest"], waiting["left"]) if waiting is not None else None
            takes = follows
            if reply is not None:
                tapped, output = reply
                value, fires = output.answer(generator), output.fires()
                form.check(name, output, value)
                asked = open_rows.to(value.device) & ~follows.to(value.device) & tapped.present.any(-1)
                asked = asked if fires is None else asked & fires
                takes = asked | follows.to(value.device)
                answers = _Sequence.of(value, output).among(asked, answers)
            if answers is None or not (reply is not None or bool(takes.any())):
                continue
            now = answers.values[:, 0]
            action = torch.zeros_like(now) if action is None else action
            action = torch.where(takes.reshape(len(state), *[1] * (now.ndim - 1)), now, action)
            counts[name] = int(takes.sum())
            open_rows = open_rows.to(now.device) & ~takes
            rest = answers.after(takes)
            if rest is not None:
                state.carry[f"actions.{name}"] = rest
        result.answered[effector] = counts
        if action is not None:
            result.action[effector], result.acted[effector] = action, ~open_rows

    def _ask(
        self, name: str, seen: Perceived, state: State, result: StepOutput, generator: torch.Generator | None
    ) -> tuple[Tapped, Output] | None:
        """What a head reads in this tick, and its output, computed once; None if there is nothing to read."""
        tapped = self._read(name, seen)
        if tapped is None:
            return None
        head, part = self.head(name), f"head.{name}"
        if name not in result.outputs and head.carry_spec:
            before = state.carry.get(part) or rows.initial_carry(head.carry_spec, len(state), self.device)
            result.outputs[name], after = head(replace(tapped, generator=generator), before)
            # A row with nothing to read keeps its carry, as it does without other rows.
            state.carry[part] = rows.where_rows(tapped.present.any(-1), after, before)
        elif name not in result.outputs:
            result.outputs[name] = head.respond(tapped)
        return tapped, result.outputs[name]

    # -- on disk ------------------------------------------------------------------------------------------------------

    def sha256(self, prefix: str = "") -> str:
        """SHA-256 of all weights, or, with a prefix such as "encoders.sight.", of that part only."""
        return saving.hash_tensors({n: x for n, x in saving.all_tensors(self).items() if n.startswith(prefix)})

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Write config, weights and checksums into `save_directory`; see `saving.save`."""
        saving.save(self, Path(save_directory))

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *args: Any,
        strict: bool = False,
        stages: Collection[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """The agent saved in a folder, or one that comes with devmind by its name ('newborn'), in eval mode.

        Args:
            strict: a part whose plugin is missing is an error; otherwise it is left out with one warning.
            stages: build only the parts of these stages, and encoders that their heads tap, which takes less time. All
                others are saved again unchanged.

        Raises:
            CheckpointError: a file is missing or damaged, or of a newer version.
            PluginError: a plugin is missing and `strict` is set.
        """
        from devmind.raised import folder_named

        folder = folder_named(pretrained_model_name_or_path)
        saved, folders = saving.read_config(folder), saving.folders_of(folder)
        with saving.as_large_as_saved(folder, saved, folders):
            agent = cls(AgentConfig.from_dict(saved), strict=strict, stages=stages)
        agent.config.architectures = [cls.__name__]
        tensors, missing = saving.read_tensors(folder, folders=folders), agent.missing_prefixes()
        agent.kept_tensors = {name: value for name, value in tensors.items() if missing and name.startswith(missing)}
        saving.fill(agent, {n: x for n, x in tensors.items() if n not in agent.kept_tensors}, folder)
        agent.eval()
        return agent

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


def _try_out(head: Head) -> Output | None:
    """The head's answer to one Moment of zeros; None if it cannot answer that."""
    inlet = head.inlet
    maps = {}
    with limit_part_size():
        for name, channels in inlet.map_channels.items():
            side = 64 // int(name.removeprefix("stride")) if name.removeprefix("stride").isdecimal() else 8
            maps[name] = torch.zeros(1, channels, side, side)
        tokens, present = torch.zeros(1, inlet.n_tokens, inlet.width), torch.ones(1, inlet.n_tokens, dtype=torch.bool)
    tapped = Tapped(tokens, present, maps)
    try:
        with torch.no_grad():
            return head.respond(tapped.map(lambda x: x.to(next(head.parameters(), x).device)))
    # Some heads need more than zeros; their answers are checked when they act.
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, DevmindError):
        return None


def _check_new(name: str, entries: Sequence[Mapping[str, Any]], kind: str) -> None:
    if any(entry["name"] == name for entry in entries):
        raise PluginError(f"This agent has the {kind} '{name}' already; choose another name.")
    if "." in name or not name:
        raise PluginError(f"The name of an agent's {kind} may not be empty nor hold a dot; got '{name}'.")
    if hasattr(nn.ModuleDict, name) or hasattr(nn.ModuleDict(), name):  # torch refuses it: it has a method of that name
        raise PluginError(f"No {kind} of an agent can be named '{name}', a word of torch's own; choose another name.")


_Readings = tuple[Tensor, Tensor]
"""Readings [B, T, ...] and their presence bool [B, T]; for one tick [B, ...] and [B]."""


def _done(batch: Batch, effector: str, last: _Readings | None) -> _Readings | None:
    """What was done with the effector in each Moment; None if it is not known, not even for the Moment before."""
    if effector in batch.get("actions", {}):
        return batch["actions"][effector], batch["acted"][effector]
    if last is None:
        return None
    rows, length = batch["first"].shape
    return last[0].new_zeros(rows, length, *last[0].shape[1:]), torch.zeros_like(batch["first"])


def _one_later(values: Tensor, present: Tensor, last: _Readings | None, first: Tensor) -> _Readings:
    """Values and presence shifted by one Moment; an episode's first Moment gets nothing."""
    value, known = last or (values[:, 0], torch.zeros_like(present[:, 0]))
    # A single tick may follow one with another picture size; the encoder resizes both.
    later = value[:, None] if values.shape[1] == 1 else torch.cat((value[:, None], values[:, :-1]), 1)
    return later, torch.cat((known[:, None], present[:, :-1]), 1) & ~first


def _pack(tokens: Tensor, present: Tensor, deep: Deep) -> tuple[tuple[Tensor, Tensor, Deep], Tensor | None]:
    """Tokens [..., n, D], presence and `deep` without columns that no Moment uses, and the columns that are left, bool
    [n] (None: all).
    """
    used = present.flatten(0, -2).any(0)
    if bool(used.all()):
        return (tokens, present, deep), None
    return (tokens[..., used, :], present[..., used], each(deep, lambda one: one[..., used])), used


def _unpack(features: Tensor, shape: torch.Size, used: Tensor | None) -> Tensor:
    if used is None:
        return features
    return features.new_zeros(shape).index_copy(-2, used.nonzero().squeeze(-1), features)


@dataclass
class _Sequence:
    """Sequences of actions, values [B, H, *shape]; each row carries out the next `left` of them, int64 [B]."""

    values: Tensor
    left: Tensor

    @classmethod
    def of(cls, answer: Tensor, output: Output) -> _Sequence:
        values = answer if output.horizon > 1 else answer[:, None]
        follow = min(output.follow or output.horizon, output.horizon)
        return cls(values, torch.full((len(values),), follow, device=values.device))

    def among(self, rows: Tensor, others: _Sequence | None) -> _Sequence:
        """This sequence in the `rows`, bool [B], and the other one elsewhere."""
        if others is None:
            return self
        length = max(self.values.shape[1], others.values.shape[1])
        own_values, other_values = (_padded(x.values, length) for x in (self, others))
        where = rows.reshape(-1, *[1] * (own_values.ndim - 1))
        return _Sequence(torch.where(where, own_values, other_values), torch.where(rows, self.left, others.left))

    def after(self, takes: Tensor) -> dict[str, Tensor] | None:
        """What is left, [B, H - 1, ...], in the rows that took the first action; None if no row has any left."""
        left = torch.where(takes, self.left - 1, 0)
        return {"rest": self.values[:, 1:], "left": left} if bool((left > 0).any()) else None


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat((values, values.new_zeros(len(values), length - values.shape[1], *values.shape[2:])), 1)
