"""The agent: encoders, trunk and heads in one PreTrainedModel, stepped tick by tick or run all at once.

It contains no training, metrics or hardware, and its state is passed in and out. `parts.py` builds the agent,
`perceiver.py` encodes, `thinking.py` runs trunk and heads, `taps.py` says what heads read, `action_selection.py` which
head answers, and `saving.py` writes and reads it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from devmind.agent import rows, saving
from devmind.agent.action_selection import StepOutput, decide
from devmind.agent.batch import Batch, collate, to_device
from devmind.agent.beliefs import Beliefs
from devmind.agent.config import AgentConfig
from devmind.agent.encoders import Encoded
from devmind.agent.output import Output
from devmind.agent.parts import Effector
from devmind.agent.ring import Ring
from devmind.agent.slots import SlotState
from devmind.agent.state import State
from devmind.agent.taps import Perceived, Percepts, Tapped, raw_vectors
from devmind.agent.thinking import Thinker
from devmind.agent.tracker import SENSE
from devmind.errors import DevmindError, nearest
from devmind.moment import Moment

STREAMED = "streamed"
"""The entry of `State.carry` that says by which sense an open Moment may be extended."""


class Agent(Thinker):
    """One multimodal agent; see the module's docstring, and DESIGN section 3 for the laws of its parts."""

    base_model_prefix = "agent"
    main_input_name = "batch"

    def __init__(self, config: AgentConfig, strict: bool = False, stages: Collection[str] | None = None) -> None:
        """Build every part that `config` names.

        Args:
            strict: a part whose plugin is missing is an error, not a warning.
            stages: build only the parts of these stages, and encoders that their heads tap.
        """
        super().__init__(config)
        self.build_parts(strict, stages)
        self.post_init()

    def init_weights(self) -> None:
        """Do nothing: every part has drawn its weights from its own named seed already."""

    # -- all at once ---------------------------------------------------------------------------------------------

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

    # -- tick by tick --------------------------------------------------------------------------------------------

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
        held = self.tracker.track(self, state, percepts) if beliefs and self.tracker else None
        if trunk:
            memories = 0 if recalled is None else recalled.tokens.shape[1]
            recalled = self._with_beliefs(recalled, held, percepts)
            self._step_trunk(percepts.seen, recalled, percepts.batch["first"][:, 0], state, memories=memories)
        result = self._act(state, percepts.seen, effectors, heads, generator, standing)
        result.beliefs, result.recalled = held, recalled
        return state, result

    def _with_beliefs(self, recalled: Encoded | None, held: Beliefs | None, percepts: Percepts) -> Encoded | None:
        """Memories and beliefs as one Encoded, memories first; the memories alone if no row believes in anything."""
        if held is None or self.tracker is None or SENSE not in self.encoders or not held.confirmed.any():
            return recalled
        believed = self.encode_recalled(self.tracker.entries(self, held, percepts))
        if recalled is None:
            return believed
        return Encoded(
            torch.cat((recalled.tokens, believed.tokens), 1), torch.cat((recalled.present, believed.present), 1)
        )

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
        carries = {name: self.head(name).carries for name in heads}
        outputs = self.run_heads([name for name in carries if not carries[name]], seen)
        result = StepOutput(outputs=outputs, features=seen.readout)
        for name, goes_on in carries.items():
            if goes_on and self._ask(name, seen, state, result, generator) is None:
                self.run_heads([name], seen)  # raises the error that names the missing sense
        for effector in self.effectors if effectors is None else effectors:
            names = self.heads_of(effector) if standing is None else standing.get(effector, ())
            self._answer(effector, names, seen, state, result, generator)
        self.note_actions(state, result.action, result.acted)
        return result

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

    def _answer(
        self,
        effector: str,
        names: Sequence[str],
        seen: Perceived,
        state: State,
        result: StepOutput,
        generator: torch.Generator | None,
    ) -> None:
        if effector not in self.effectors:
            raise DevmindError(f"No head of this agent answers for '{effector}'{nearest(effector, self.effectors)}")

        def ask(name: str) -> tuple[Tapped, Output] | None:
            return self._ask(name, seen, state, result, generator)

        # If a head could not be tried when it was added, its first answer sets the effector's form.
        form = self.declared(effector) or Effector(effector)
        answer = decide(form, names, ask, len(state), generator, state.carry)
        result.answered[effector] = dict(answer.counts) if answer else dict.fromkeys(names, 0)
        if answer:
            result.action[effector], result.acted[effector] = answer.action, answer.acted

    def _ask(
        self, name: str, seen: Perceived, state: State, result: StepOutput, generator: torch.Generator | None
    ) -> tuple[Tapped, Output] | None:
        """What a head reads in this tick, and its output, computed once; None if there is nothing to read."""
        tapped = self._read(name, seen)
        if tapped is None:
            return None
        head, kept = self.head(name), f"kept.{name}"
        if name not in result.outputs and head.carries:
            before = state.carry.get(kept)
            result.outputs[name] = output = head(tapped, before)
            output.prepare(generator)
            # A row with nothing to read keeps its state, as it does without other rows.
            state.carry[kept] = rows.chosen(tapped.present.any(-1), output.kept(), before)
        elif name not in result.outputs:
            result.outputs[name] = head.respond(tapped)
        return tapped, result.outputs[name]

    # -- on disk -------------------------------------------------------------------------------------------------

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
        saving.load_weights(agent, folder, folders)
        agent.eval()
        return agent


def register_auto_classes() -> None:
    """Let transformers' AutoConfig and AutoModel load agents; call it once before using them."""
    from transformers import AutoConfig, AutoModel

    AutoConfig.register(AgentConfig.model_type, AgentConfig, exist_ok=True)
    AutoModel.register(AgentConfig, Agent, exist_ok=True)
