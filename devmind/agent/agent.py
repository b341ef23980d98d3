"""The agent: encoders, trunk and heads in one PreTrainedModel, stepped tick by tick or run all at once.

No training, metrics or hardware in here. State is passed in and out. `parts.py` builds it, `senses.py` encodes,
`thinking.py` runs trunk and heads, `taps.py` says what heads read, `acting.py` who answers, `saving.py` keeps it on
disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from devmind.agent import saving
from devmind.agent.acting import StepOutput, decide
from devmind.agent.batch import Batch, collate, to_device
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoded
from devmind.agent.output import Output
from devmind.agent.ring import Ring, State
from devmind.agent.slots import SlotState
from devmind.agent.taps import Perceived, Tapped
from devmind.agent.thinking import Thinker
from devmind.errors import DevmindError, nearest
from devmind.moment import Moment


@dataclass
class Percepts:
    """One tick of B agents, encoded: what arcs read, what memory is asked with, what the trunk steps on.

    Attributes:
        seen: tokens, presence and maps by sense.
        keys: L2-normalised float32 [B, 64] by sense; zeros where the sense is absent.
        batch: the tick itself, with T = 1.
    """

    seen: Perceived
    keys: dict[str, Tensor]
    batch: Batch

    @property
    def encoded(self) -> dict[str, Encoded]:
        """Tokens [B, K, D], presence and maps by sense."""
        return self.seen.encoded


class Agent(Thinker):
    """One multimodal agent; see the module's docstring, and DESIGN section 3 for the laws of its parts."""

    base_model_prefix = "agent"
    main_input_name = "batch"

    def __init__(self, config: AgentConfig, strict: bool = False) -> None:
        """Build every part that `config` names.

        Args:
            strict: a part whose plugin is missing is an error, not a warning.
        """
        super().__init__(config)
        self.build_parts(strict)
        self.post_init()

    def init_weights(self) -> None:
        """Nothing: every part has drawn its weights from its own named seed already."""

    def parts(self) -> dict[tuple[str, str], list[nn.Parameter]]:
        """Every parameter by (part, stage), for optimizer groups: ("trunk", stage), ("encoder.sight", stage), ..."""
        own = [*self.trunk.parameters(), self.readout, self.recalled_type, self.recalled_rank, *self.age.parameters()]
        return {("trunk", self.config.trunk_stage): own, **self.part_parameters()}

    def grow(self, layers: int) -> None:
        """Append `layers` trunk layers with zero output projections: every answer stays exactly as it is.

        States made before have too few layers: make new ones.
        """
        self.trunk.grow(layers, self.config.seed)
        self.config.layers = self.trunk.n_layers
        if self.config.trunk is not None:
            self.config.trunk = self.trunk.decoder.config.to_dict()

    # -- all at once ---------------------------------------------------------------------------------------------

    def forward(self, batch: Batch, heads: Iterable[str] | None = None, short_term: bool = True) -> dict[str, Output]:
        """Outputs [B, T, ...] of `heads` (all by default) for a Batch of consecutive Moments.

        A row starts with an empty window and the learned slots; Moments never see beyond a `first`. Only what the
        heads need is run.

        Args:
            short_term: False switches short-term memory off: a window of one Moment, no slots. Encoders that see
                change still see it.
        """
        names = list(self.heads if heads is None else heads)
        return self.run_heads(names, self.perceive(batch, [self.tap_of(name) for name in names], short_term))

    @torch.no_grad()
    def evaluate(self, boards: Tensor, heads: Iterable[str]) -> dict[str, Output]:
        """Outputs [N, ...] of heads for N unrelated boards int8 [N, C, H, W]: one Moment each, no state."""
        ones = torch.ones(len(boards), 1, dtype=torch.bool)
        batch = {"senses": {"board": boards[:, None]}, "present": {"board": ones}, "first": ones}
        names = list(heads)
        seen = self.perceive(batch, [self.tap_of(name) for name in names])
        return self.run_heads(names, seen.map(lambda x: x[:, 0]))

    # -- tick by tick --------------------------------------------------------------------------------------------

    def new_state(self, n: int = 1, short_term: bool = True) -> State:
        """The empty state of `n` agents that step together.

        Args:
            short_term: False switches short-term memory off, as in `forward`.
        """
        ring = Ring(n, self.config.window if short_term else 1, self.trunk.n_layers, self.device)
        slots = self.trunk.slots if short_term else None
        return State(ring, slots=None if slots is None else SlotState.empty(n, slots))

    def _check(self, state: State, batch: Batch) -> None:
        state.check(len(batch["first"]), self.trunk.n_layers, self.config.slots or 0)

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
        self._check(state, batch)
        seen = self.encode_batch(batch, carried=state.previous).map(lambda x: x[:, 0])
        return Percepts(seen, {name: self.key(value) for name, value in seen.encoded.items()}, batch)

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
            recalled: from `encode_recalled`, tokens [B, R, D].
            effectors: which ones to answer for; all by default.
            heads: further heads whose outputs are wanted.
            generator: actions are sampled with it; without, the most likely one is taken.
            trunk: False leaves the window as it is and lets only arcs answer (rollouts and exams of arcs).
        """
        batch, seen = percepts.batch, percepts.seen
        self._check(state, batch)
        if trunk:
            self._run_trunk(seen, recalled, batch["first"][:, 0], state)
        state.previous = {
            name: (batch["senses"][name][:, 0], batch["present"][name][:, 0])
            for name in seen.encoded
            if self.encoder(name).uses_previous
        }
        result = StepOutput(outputs=self.run_heads(heads, seen), features=seen.readout)
        for effector in self.effectors if effectors is None else effectors:
            self._answer(effector, seen, len(state), result, generator)
        return state, result

    def _answer(
        self, effector: str, seen: Perceived, rows: int, result: StepOutput, generator: torch.Generator | None
    ) -> None:
        names = self.heads_of(effector)
        if not names:
            raise DevmindError(f"No head of this agent answers for '{effector}'{nearest(effector, self.effectors)}")

        def ask(name: str) -> tuple[Tapped, Output] | None:
            tapped = self._read(name, seen)
            if tapped is None:
                return None
            if name not in result.outputs:
                result.outputs[name] = self.head(name)(tapped)
            return tapped, result.outputs[name]

        answer = decide(names, ask, rows, generator)
        result.answered[effector] = dict(answer.counts) if answer else dict.fromkeys(names, 0)
        if answer:
            result.action[effector], result.acted[effector] = answer.action, answer.acted

    # -- on disk -------------------------------------------------------------------------------------------------

    def sha256(self, prefix: str = "") -> str:
        """SHA-256 of all weights; with a prefix such as "encoders.sight." of that part only."""
        return saving.hash_tensors({n: x for n, x in saving.all_tensors(self).items() if n.startswith(prefix)})

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Write config, weights and checksums into `save_directory`; see `saving.save`."""
        saving.save(self, Path(save_directory))

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, strict: bool = False, **kwargs: Any
    ) -> Self:
        """The agent saved in a folder, in eval mode.

        Args:
            strict: a part whose plugin is missing is an error; otherwise it is left out with one warning.

        Raises:
            CheckpointError: a file is missing or damaged, or of a newer version.
            PluginError: a plugin is missing and `strict` is set.
        """
        folder = Path(pretrained_model_name_or_path)
        agent = cls(saving.read_config(folder), strict=strict)
        saving.load_weights(agent, folder)
        agent.eval()
        return agent


def register_auto_classes() -> None:
    """Let transformers' AutoConfig and AutoModel load agents; call it once before using them."""
    from transformers import AutoConfig, AutoModel

    AutoConfig.register(AgentConfig.model_type, AgentConfig, exist_ok=True)
    AutoModel.register(AgentConfig, Agent, exist_ok=True)
