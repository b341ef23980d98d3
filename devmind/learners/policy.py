"""Learning by reward: proximal policy optimisation of heads that act, in worlds of rows, one drill a training step.

`collect` lets an actor-critic act in a world by `devmind.acting.rollout` and keeps what learning needs; `improve` is
one update on it, on single steps or on rows of consecutive ones. Both know no agent: the benchmark against
Stable-Baselines3 runs them with a network of its own. `PolicyLearner` does so with an agent's heads, in a lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Policy, Senses, rollout
from devmind.acting.rollout import Actions, Steppable, starts_anew
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.ppo import minibatches, normalize, policy_change, ppo_loss
from devmind.algorithms.returns import generalized_advantages
from devmind.algorithms.rollout import Rollout, Tree, columns, next_values, rows, stack
from devmind.curriculum.stage import Context, Learner, Rehearsed, Scalars
from devmind.errors import ConfigError
from devmind.learners.actor_critics import Arc, TrunkPolicy, actor_critic
from devmind.learners.distil import Kept, divergence_from, kept_of
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.restarting import Restarting
from devmind.worlds.side_by_side import Joined


KEPT_ROWS = 16
"""Rows of each level whose observations are kept of a drill, for rehearsing it."""


class Choice(Protocol):
    """A distribution over actions [N, ...]; `devmind.algorithms.distributions` and heads' outputs are some."""

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Actions [N, ...]."""
        ...

    def log_prob(self, action: Tensor) -> Tensor:
        """Log of the probability (density) of each row's action, [N]."""
        ...

    def entropy(self) -> Tensor:
        """In nats, [N]."""
        ...


class ActorCritic(Protocol):
    """What acts and is improved: reads senses without a gradient, and answers with one."""

    effector: str

    def read(self, senses: Senses, first: np.ndarray) -> Tree:
        """What N rows sense as an observation [N, ...]; goes on from the tick before."""
        ...

    def peek(self, senses: Senses) -> Tree:
        """As `read`, but the next `read` goes on as if this had not been asked."""
        ...

    def __call__(self, observation: Tree) -> tuple[Choice, Tensor]:
        """The distribution over actions, and the value [N]."""
        ...

    def as_command(self, action: Tensor) -> np.ndarray:
        """Sampled actions as what the effector takes."""
        ...


@runtime_checkable
class SequencePolicy(ActorCritic, Protocol):
    """An actor-critic whose answers depend on earlier steps: it learns from whole rows of consecutive ones."""

    def along(self, observation: Tree) -> tuple[Choice, Tensor]:
        """Answers [B, T, ...] on rows [B, T, ...], each of which begins an episode."""
        ...


@torch.no_grad()
def collect(
    network: ActorCritic,
    world: Steppable,
    ticks: int,
    generator: torch.Generator,
    first: np.ndarray | None = None,
) -> Rollout[Any, Tensor]:
    """Act for `ticks` from where `world` stands; every tensor of what comes back is [ticks, N, ...].

    In a world that starts ended rows anew all ticks count, in any other only those up to a row's end.

    Args:
        generator: samples the actions.
        first: which rows begin an episode at the first tick; all by default.
    """
    observations: list[Tree] = []
    actions, log_probs, values, led_to_values = [], [], [], []
    rewards, terminals, truncations = [], [], []

    def policy(senses: Senses, opening: np.ndarray) -> Actions:
        observation = network.read(senses, opening)
        choice, value = network(observation)
        action = choice.sample(generator)
        observations.append(observation)
        actions.append(action)
        log_probs.append(choice.log_prob(action))
        values.append(value)
        return {network.effector: network.as_command(action)}

    for tick in rollout(policy, world, ticks, first):
        device = values[-1].device
        rewards.append(torch.as_tensor(tick.reward).to(device))
        terminals.append(torch.as_tensor(tick.terminated).to(device))
        truncations.append(torch.as_tensor(tick.truncated).to(device))
        restarted = tick.led_to is not tick.following
        # Elsewhere the next tick's own value serves, so the critic runs a second time only where it must.
        needed = tick.tick == ticks - 1 or (restarted and bool(tick.truncated.any()))
        led_to_values.append(network(network.peek(tick.led_to))[1] if needed else None)
    terminal = torch.stack(terminals)
    last = terminal | torch.stack(truncations)
    ended_before = last.cumsum(0) - last.long() > 0
    return Rollout(
        stack(observations),
        stack(actions),
        torch.stack(log_probs),
        torch.stack(values),
        next_values(values, led_to_values),
        torch.stack(rewards),
        terminal,
        last,
        torch.ones_like(last) if starts_anew(world) else ~ended_before,
    )


def _sampled(network: ActorCritic, generator: torch.Generator) -> Policy:
    """What a policy does while it learns: a sample of its choices."""

    def policy(senses: Senses, first: np.ndarray) -> Actions:
        choice, _ = network(network.read(senses, first))
        return {network.effector: network.as_command(choice.sample(generator))}

    return policy


@dataclass(frozen=True)
class PPO:
    """How one update learns.

    Attributes:
        discount, gae_lambda: of the advantages.
        epochs, batches: passes over a rollout, and minibatches in each.
        clip: of the probability ratio; entropy: weight of the entropy.
        max_grad_norm: of each group of parameters that is clipped together.
    """

    discount: float = 0.0
    gae_lambda: float = 0.9
    epochs: int = 3
    batches: int = 3
    clip: float = 0.2
    entropy: float = 0.0
    max_grad_norm: float = 0.5


def improve(
    network: ActorCritic,
    optimizer: torch.optim.Optimizer,
    collected: Rollout[Any, Tensor],
    settings: PPO,
    order: torch.Generator,
    clipped: Sequence[Sequence[nn.Parameter]],
    group: Tensor | None = None,
) -> dict[str, Tensor]:
    """One update of proximal policy optimisation; scalars to log.

    Args:
        order: decides the minibatches.
        clipped: groups of parameters whose gradients' norm is clipped together.
        group: int64 [N]; advantages are normalised within each group of rows, all together by default.
    """
    advantage, target = generalized_advantages(
        collected.reward,
        collected.value,
        collected.next_value,
        collected.terminal,
        collected.last,
        discount=settings.discount,
        gae_lambda=settings.gae_lambda,
        mask=collected.mask,
    )
    group = torch.zeros(advantage.shape[1], dtype=torch.long, device=advantage.device) if group is None else group
    for index in group.unique():
        mine = group == index
        advantage[:, mine] = normalize(advantage[:, mine], collected.mask[:, mine])
    # Of a policy with a state whole rows are drawn: what a step answers is made of those before it.
    whole_rows = isinstance(network, SequencePolicy)
    drawn = collected.mask.any(0, keepdim=True) if whole_rows else collected.mask
    for chosen in minibatches(drawn, settings.epochs, settings.batches, order):
        log_prob, value, entropy, pick = _evaluate(network, collected, chosen)
        old = pick(collected.log_prob)
        loss = ppo_loss(
            log_prob, old, pick(advantage), value, pick(target), entropy,
            clip=settings.clip, entropy_weight=settings.entropy,
        )  # fmt: skip
        optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        for parameters in clipped:
            nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimizer.step()
    divergence, outside = policy_change(log_prob.detach(), old, clip=settings.clip)
    return {"value loss": loss.value.detach(), "kl": divergence, "clipped": outside}


def _evaluate(
    network: ActorCritic, collected: Rollout[Any, Tensor], chosen: Tensor
) -> tuple[Tensor, Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Log probability of what was done, value and entropy of the chosen steps (or all steps of the chosen rows), [B].

    The last is a function that picks the same steps of a tensor [T, N].
    """
    if not isinstance(network, SequencePolicy):
        choice, value = network(rows(collected.observation, chosen))
        log_prob = choice.log_prob(rows(collected.action, chosen))
        return log_prob, value, choice.entropy(), lambda x: rows(x, chosen)
    valid = columns(collected.mask, chosen)
    choice, value = network.along(columns(collected.observation, chosen))
    log_prob = choice.log_prob(columns(collected.action, chosen))
    return log_prob[valid], value[valid], choice.entropy()[valid], lambda x: columns(x, chosen)[valid]


@dataclass(frozen=True)
class Drill:
    """What one training step of one policy is.

    Attributes:
        effector: what the head acts with.
        world, levels: practised in, the levels side by side.
        rows: in each level.
        ticks: length of a rollout.
        ppo: how it learns; the entropy's weight falls linearly to a tenth.
        learning_rate: at the start; it falls linearly to a tenth.
        log_std: of the actions at the lesson's start and end.
        lasting: rows start anew when they end, and go on from one training step to the next; not for policies on the
            trunk, whose rows begin their episodes with each rollout.
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

    def network(self, agent: Agent) -> Arc | TrunkPolicy:
        """The policy and its critic, of this agent."""
        return actor_critic(agent, self.effector, self.head, self.critic)


class PolicyLearner(Learner):
    """Proximal policy optimisation of an agent's policies, one drill a training step.

    Batches name the drill. It is rehearsed by distillation: what the policies answer on some observations is kept when
    a later lesson begins, and they are held to it (Rusu et al. 2016, "Policy distillation", arXiv 1511.06295).

    Args:
        drills: by name.
        heirs: heads and critics, and the heads whose reading of the tokens they take over when the lesson begins.
        keepers: heads that keep their reading while rewards teach them to answer.
        crowd: scales every drill's rows.
        trains: prefixes of what rewards change besides these heads, for policies on the trunk; see `trainable`.
    """

    mixes: ClassVar[bool] = True

    def __init__(
        self,
        agent: Agent,
        context: Context,
        drills: Mapping[str, Drill],
        *,
        heirs: Mapping[str, str] | None = None,
        keepers: Sequence[str] = (),
        crowd: float = 1.0,
        trains: Sequence[str] = (),
    ) -> None:
        self.context, self.drills, self.crowd = context, dict(drills), crowd
        self.heirs, self.keepers, self.further = dict(heirs or {}), tuple(keepers), tuple(trains)
        self.networks = {(n := drill.network(agent)).names: n for drill in drills.values()}
        for name, drill in self.drills.items():
            if drill.lasting and isinstance(drill.network(agent), TrunkPolicy):
                raise ConfigError(
                    f"The drill '{name}' cannot be lasting: a policy on the trunk learns from rows that begin their "
                    "episodes with the rollout. Give it more ticks instead."
                )
        mine = [f"heads.{name}." for names in self.networks for name in names]
        super().__init__(agent, seed=context.seed, trains=(*mine, *self.further))
        self.lasting: dict[str, Any] = {}
        self.kept: dict[str, Kept] = {}
        self.env_steps = 0
        self._optimizer: torch.optim.Optimizer | None = None

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, the lasting worlds' states as tensors, and what is kept for rehearsals."""
        worlds = {
            name: {key: torch.from_numpy(value.copy()) for key, value in vars(world.state()).items()}
            for name, world in self.lasting.items()
        }
        optimizer = None if self._optimizer is None else self._optimizer.state_dict()
        return {"optimizer": optimizer, "lasting": worlds, "kept": self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let lasting worlds go on."""
        if state["optimizer"] is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self.kept = dict(state["kept"])
        for name, tensors in state["lasting"].items():
            world = self._made(name, self.drills[name].levels[0], 0)
            kept = {key: value.cpu().numpy().copy() for key, value in tensors.items()}
            world.restore(type(world.state())(**kept))
            self.lasting[name] = world

    def begin(self, step: int) -> None:
        """Freeze all but the policies; how widely they explore follows a schedule, not a gradient."""
        if step == 0:
            for heir, teacher in self.heirs.items():
                self.agent.head(heir).start_from(self.agent.head(teacher))
        super().begin(step)
        for name, parameter in self.agent.named_parameters():
            if name.endswith("log_std"):
                parameter.requires_grad_(False)
        for keeper in self.keepers:
            for parameter in self.agent.head(keeper).reading():
                parameter.requires_grad_(False)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, one group a policy and one for the rest; what has no gradient in a step is left as it is."""
        if self._optimizer is None:
            groups = [list(network.parts().parameters()) for network in self.networks.values()]
            made = [{"params": [p for p in each if p.requires_grad]} for each in (*groups, self._further())]
            self._optimizer = torch.optim.Adam([group for group in made if group["params"]], lr=1e-3, eps=1e-5)
        return self._optimizer

    def _further(self) -> list[nn.Parameter]:
        """What rewards change besides heads and critics."""
        mine = {id(p) for network in self.networks.values() for p in network.parts().parameters()}
        named = self.agent.named_parameters() if self.further else ()
        return [p for name, p in named if name.startswith(self.further) and id(p) not in mine]

    def update(self, batch: Any, step: int) -> Scalars:
        """One rollout and one update of the drill that the batch names; or a step of a rehearsal.

        On one intra-op thread: these are thousands of small operations, which two threads only slow down. In full
        precision: the ratio of two probabilities of one action is close to 1.
        """
        gone = step / max(1, self.steps)
        if isinstance(batch, Rehearsed):
            return self._rehearsal(batch, gone)
        name, drill = batch["drill"], self.drills[batch["drill"]]
        network = drill.network(self.agent)
        with stepping_threads(), torch.autocast(self.agent.device.type, enabled=False):
            self._set_exploration(network, drill, gone)
            collected, level = self._practise(name, drill, network, step)
            scalars = self._improve(name, drill, network, collected, level, step, gone)
        self.env_steps += int(collected.mask.sum())
        scalars["reward"] = collected.reward.sum() / collected.reward.shape[1]
        return {f"{name}/{key}": value for key, value in scalars.items()}

    def _rehearsal(self, batch: Rehearsed, gone: float) -> Scalars:
        """One step down the loss of another lesson, at the lowest learning rate of the drills."""
        self._set_rate(min(drill.learning_rate for drill in self.drills.values()), gone)
        loss, scalars = batch.learner.rehearse(batch.batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([p for group in self.optimizer.param_groups for p in group["params"]], 1.0)
        self.optimizer.step()
        return {f"rehearsal/{name}": value for name, value in {"loss": loss.detach(), **scalars}.items()}

    @torch.no_grad()
    def remember(self) -> None:
        """Let each policy act once in its worlds, and keep what it sensed and answered."""
        for name, drill in self.drills.items():
            network = drill.network(self.agent)
            generator = torch_generator(self.seed, "kept", name, device=self.agent.device)
            world = Joined([self._made(name, level, "kept", most=KEPT_ROWS) for level in drill.levels])
            ticks, over = [], [np.zeros(world.num_envs, bool)]
            for tick in rollout(_sampled(network, generator), world, drill.ticks):
                ticks.append((tick.senses, tick.first))
                over.append(over[-1] | tick.ended)
            self.kept[name] = kept_of(self.agent, ticks, ~np.stack(over[:-1], 1), network.names[:1])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """How far the drill's policy has moved from what it answered on the kept observations, in nats.

        Raises:
            ConfigError: nothing was kept.
        """
        name = batch["drill"]
        if name not in self.kept:
            raise ConfigError(f"Nothing of the drill '{name}' was kept to rehearse; call 'remember' first.")
        loss = divergence_from(self.agent, self.kept[name])
        return loss, {f"{name}/kl": loss.detach()}

    def _set_exploration(self, network: Arc | TrunkPolicy, drill: Drill, gone: float) -> None:
        if drill.log_std is not None:
            first, last = drill.log_std
            network.arc.get_parameter("log_std").data.fill_(first + gone * (last - first))

    def _practise(
        self, name: str, drill: Drill, network: Arc | TrunkPolicy, step: int
    ) -> tuple[Rollout[Any, Tensor], Tensor]:
        """The rollout, and the level of each row, int64 [N]."""
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
        """A level's world with rows of this training step, at most `most`; a lasting drill's, of its first."""
        drill = self.drills[name]
        names = (name,) if drill.lasting else (level, step)
        rows_ = max(4, round(drill.rows * self.crowd))
        seeds = lesson_seeds(min(rows_, most or rows_), self.seed, "motor", *names)
        return self.context.make_world(drill.world, level, seeds)

    def _set_rate(self, rate: float, gone: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate * (1 - 0.9 * gone)

    def _improve(
        self,
        name: str,
        drill: Drill,
        network: Arc | TrunkPolicy,
        collected: Rollout[Any, Tensor],
        level: Tensor,
        step: int,
        gone: float,
    ) -> dict[str, Tensor]:
        self._set_rate(drill.learning_rate, gone)
        settings = replace(drill.ppo, entropy=drill.ppo.entropy * (1 - 0.9 * gone))
        order = torch_generator(self.seed, "motor", name, "order", step)
        sides = [list(part.parameters()) for part in (network.arc, network.critic)]
        further = self._further() if isinstance(network, TrunkPolicy) else []
        clipped = [*sides, further] if further else sides
        return improve(network, self.optimizer, collected, settings, order, clipped, level)
