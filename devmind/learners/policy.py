"""Learning by reward in a lesson: policies of an agent (arcs, or heads on the trunk) practise in drills, one a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import rollout
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.rollout import Rollout
from devmind.curriculum.stage import Context, Learner, Rehearsed, Scalars, names_in
from devmind.errors import ConfigError
from devmind.learners.actor_critics import Arc, TrunkPolicy, actor_critic
from devmind.learners.distil import Kept, divergence_from, store_answers
from devmind.learners.ppo import PPO, collect, improve, sampling_policy
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.restarting import Restarting
from devmind.worlds.side_by_side import Joined

KEPT_ROWS = 16
"""Rows of each level whose observations are stored for the rehearsal of a drill."""


@dataclass(frozen=True)
class Drill:
    """One training step of one policy.

    Attributes:
        effector: the effector of the head.
        world, levels: the world to practise in; its levels run side by side.
        rows: number of rows in each level.
        ticks: length of a rollout.
        ppo: settings of PPO; the weight of the entropy falls linearly to a tenth.
        learning_rate: at the start; it falls linearly to a tenth.
        log_std: log standard deviation of the actions at the lesson's start and end.
        lasting: ended rows are reset, and rows go on from one training step to the next. This needs one level, whose
            state has `tick`. Policies on the trunk cannot do this, since their rows begin episodes with each rollout.
        head, critic: by default `{effector}_arc` and `{effector}_value`; arcs, or heads on the trunk.
    """

    effector: str
    world: str
    levels: tuple[str, ...]
    rows: int
    ticks: int
    ppo: PPO = field(default_factory=PPO)
    learning_rate: float = 1e-3
    log_std: tuple[float, float] | None = None
    lasting: bool = False
    head: str = ""
    critic: str = ""

    def __post_init__(self) -> None:
        names_in(f"The levels of the drill in '{self.world}'", self.levels)

    def network(self, agent: Agent) -> Arc | TrunkPolicy:
        """The agent's policy and its critic."""
        return actor_critic(agent, self.effector, self.head, self.critic)


def saved_worlds(worlds: Mapping[str, VectorWorld[Any]]) -> dict[str, dict[str, Tensor]]:
    """The states of worlds as tensors, by name and field, for a checkpoint."""
    states = {name: world.state() for name, world in worlds.items()}
    return {
        name: {one.name: torch.from_numpy(getattr(state, one.name)) for one in fields(state)}
        for name, state in states.items()
    }


def restore_worlds(world: VectorWorld[Any], tensors: Mapping[str, Tensor]) -> VectorWorld[Any]:
    """The world, set to a state that `saved_worlds` gave."""
    world.restore(type(world.state())(**{key: value.cpu().numpy().copy() for key, value in tensors.items()}))
    return world


class PolicyLearner(Learner):
    """Proximal policy optimisation of an agent's policies, one drill in each training step.

    Batches name the drill. Rehearsal is distillation: when a later lesson begins, the policies' answers on some
    observations are stored, and the policies are trained to keep them (Rusu et al. 2016, "Policy distillation",
    arXiv 1511.06295).

    Args:
        drills: by name.
        init_from: by head or critic, another head whose reading parameters (`Head.reading`) it copies. This happens
            each time the lesson begins, since perception may have been taught again.
        frozen: heads whose reading parameters do not change; rewards teach only their answers.
        crowd: factor on the rows of every drill.
        trains: prefixes of further parameters that rewards change, for policies on the trunk; see `trainable`.
    """

    mixes: ClassVar[bool] = True

    def __init__(
        self,
        agent: Agent,
        context: Context,
        drills: Mapping[str, Drill],
        *,
        init_from: Mapping[str, str] | None = None,
        frozen: Sequence[str] = (),
        crowd: float = 1.0,
        trains: Sequence[str] = (),
    ) -> None:
        self.context, self.drills, self.crowd = context, dict(drills), crowd
        self.init_from, self.frozen = dict(init_from or {}), names_in("Heads that are `frozen`", frozen)
        self.further = names_in("What a learner `trains`", trains)
        self.networks = {(n := drill.network(agent)).names: n for drill in drills.values()}
        for name, drill in self.drills.items():
            if drill.lasting and isinstance(drill.network(agent), TrunkPolicy):
                raise ConfigError(
                    f"The drill '{name}' cannot be lasting: a policy on the trunk learns from rows that begin their "
                    "episodes with the rollout. Give it more ticks instead."
                )
            if drill.lasting and len(drill.levels) != 1:
                raise ConfigError(
                    f"The drill '{name}' is lasting, so it practises in one level; got {', '.join(drill.levels)}. Make "
                    "a drill of each."
                )
        own_prefixes = [f"heads.{name}." for names in self.networks for name in names]
        super().__init__(agent, seed=context.seed, trains=(*own_prefixes, *self.further))
        self.lasting: dict[str, Any] = {}
        self.kept: dict[str, Kept] = {}
        self.env_steps = 0
        self._optimizer: torch.optim.Optimizer | None = None

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, the states of lasting worlds as tensors, and what is stored for rehearsals."""
        optimizer = None if self._optimizer is None else self._optimizer.state_dict()
        return {"optimizer": optimizer, "lasting": saved_worlds(self.lasting), "kept": self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the optimizer, the stored answers and the lasting worlds."""
        if state["optimizer"] is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self.kept = dict(state["kept"])
        for name, tensors in state["lasting"].items():
            world = self._made(name, self.drills[name].levels[0], 0)
            self.lasting[name] = restore_worlds(world, tensors)

    def begin(self, step: int) -> None:
        """Freeze all but the policies; their standard deviations follow a schedule, not a gradient."""
        if step == 0:
            for student, teacher in self.init_from.items():
                self.agent.head(student).start_from(self.agent.head(teacher))
        super().begin(step)
        for name, parameter in self.agent.named_parameters():
            if name.endswith("log_std"):
                parameter.requires_grad_(False)
        for kept_head in self.frozen:
            for parameter in self.agent.head(kept_head).reading():
                parameter.requires_grad_(False)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, with one group for each policy and one for the rest; a parameter without a gradient does not change."""
        if self._optimizer is None:
            groups = [list(network.parts().parameters()) for network in self.networks.values()]
            made = [{"params": [p for p in each if p.requires_grad]} for each in (*groups, self._further())]
            self._optimizer = torch.optim.Adam([group for group in made if group["params"]], lr=1e-3, eps=1e-5)
        return self._optimizer

    def _further(self) -> list[nn.Parameter]:
        """The parameters that rewards change besides heads and critics."""
        mine = {id(p) for network in self.networks.values() for p in network.parts().parameters()}
        named = self.agent.named_parameters() if self.further else ()
        return [p for name, p in named if name.startswith(self.further) and id(p) not in mine]

    def update(self, batch: Any, step: int) -> Scalars:
        """One rollout and one update of the drill that the batch names; or a step of a rehearsal.

        It runs on one intra-op thread, since two threads would slow down thousands of small operations; and in full
        precision, since the ratio of an action's new and old probability is close to 1.
        """
        progress = step / max(1, self.steps)
        if isinstance(batch, Rehearsed):
            return self._rehearsal(batch, progress)
        name, drill = batch["drill"], self.drills[batch["drill"]]
        network = drill.network(self.agent)
        with stepping_threads(), torch.autocast(self.agent.device.type, enabled=False):
            self._set_exploration(network, drill, progress)
            collected, level = self._practise(name, drill, network, step)
            scalars = self._improve(name, drill, network, collected, level, step, progress)
        self.env_steps += int(collected.mask.sum())
        scalars["reward"] = collected.reward.sum() / collected.reward.shape[1]
        return {f"{name}/{key}": value for key, value in scalars.items()}

    def _rehearsal(self, batch: Rehearsed, progress: float) -> Scalars:
        """One step down the loss of another lesson, at the lowest learning rate of the drills."""
        self._set_rate(min(drill.learning_rate for drill in self.drills.values()), progress)
        loss, scalars = batch.learner.rehearse(batch.batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([p for group in self.optimizer.param_groups for p in group["params"]], 1.0)
        self.optimizer.step()
        return {f"rehearsal/{name}": value for name, value in {"loss": loss.detach(), **scalars}.items()}

    @torch.no_grad()
    def remember(self) -> None:
        """Let each policy act once in its worlds, and store what it sensed and answered."""
        for name, drill in self.drills.items():
            network = drill.network(self.agent)
            generator = torch_generator(self.seed, "kept", name, device=self.agent.device)
            world = Joined([self._made(name, level, "kept", most=KEPT_ROWS) for level in drill.levels])
            ticks, over = [], [np.zeros(world.num_envs, bool)]
            for tick in rollout(sampling_policy(network, generator), world, drill.ticks):
                ticks.append((tick.senses, tick.first))
                over.append(over[-1] | tick.ended)
            self.kept[name] = store_answers(self.agent, ticks, ~np.stack(over[:-1], 1), network.names[:1])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The divergence of the drill's policy from its stored answers, in nats.

        Raises:
            ConfigError: nothing was stored.
        """
        name = batch["drill"]
        if name not in self.kept:
            raise ConfigError(f"Nothing of the drill '{name}' was kept to rehearse; call 'remember' first.")
        loss = divergence_from(self.agent, self.kept[name])
        return loss, {f"{name}/kl": loss.detach()}

    def _set_exploration(self, network: Arc | TrunkPolicy, drill: Drill, progress: float) -> None:
        if drill.log_std is not None:
            first, last = drill.log_std
            network.arc.get_parameter("log_std").data.fill_(first + progress * (last - first))

    def _practise(
        self, name: str, drill: Drill, network: Arc | TrunkPolicy, step: int
    ) -> tuple[Rollout[Any, Tensor], Tensor]:
        """A rollout, and the level of each row, int64 [N]."""
        generator = torch_generator(self.seed, "motor", name, step, device=self.agent.device)
        if drill.lasting:
            kept = self.lasting.get(name) or self._made(name, drill.levels[0], step)
            state = kept.state()
            world: Any = Restarting(kept, numpy_rng(self.seed, "motor", name, "starts", step))
            collected = collect(network, world, drill.ticks, generator, first=state.tick == 0)
            self.lasting[name] = world
            level = torch.zeros(world.num_envs, dtype=torch.long)
        else:
            world = Joined([self._made(name, level, step) for level in drill.levels])
            collected = collect(network, world, drill.ticks, generator)
            level = torch.repeat_interleave(torch.arange(len(world.sizes)), torch.tensor(world.sizes))
        return collected, level.to(collected.reward.device)

    def _made(self, name: str, level: str, step: int | str, most: int | None = None) -> Any:
        """A level's world with at most `most` rows; unless the drill is lasting, the seeds depend on the step."""
        drill = self.drills[name]
        names = (name,) if drill.lasting else (level, step)
        rows_ = max(4, round(drill.rows * self.crowd))
        seeds = lesson_seeds(min(rows_, most or rows_), self.seed, "motor", *names)
        return self.context.make_world(drill.world, level, seeds)

    def _set_rate(self, rate: float, progress: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate * (1 - 0.9 * progress)

    def _improve(
        self,
        name: str,
        drill: Drill,
        network: Arc | TrunkPolicy,
        collected: Rollout[Any, Tensor],
        level: Tensor,
        step: int,
        progress: float,
    ) -> dict[str, Tensor]:
        self._set_rate(drill.learning_rate, progress)
        settings = replace(drill.ppo, entropy=drill.ppo.entropy * (1 - 0.9 * progress))
        order = torch_generator(self.seed, "motor", name, "order", step)
        sides = [list(part.parameters()) for part in (network.arc, network.critic)]
        further = self._further() if isinstance(network, TrunkPolicy) else []
        clipped = [*sides, further] if further else sides
        return improve(network, self.optimizer, collected, settings, order, clipped, level)
