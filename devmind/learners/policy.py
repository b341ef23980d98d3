"""Learning by reward: proximal policy optimisation of heads that act, in worlds of rows, one drill a training step.

`collect` lets an actor-critic act in a world by `devmind.acting.rollout` and keeps what learning needs; `improve` is
one update on it. Both know no agent: the benchmark against Stable-Baselines3 runs them with a network of its own.
`PolicyLearner` does so with an agent's heads, in a lesson.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Senses, rollout
from devmind.acting.rollout import Actions, Steppable, starts_anew
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick, to_device
from devmind.agent.output import Categorical, Normal
from devmind.agent.taps import Tapped, read_tap, tapped_senses
from devmind.agent.threads import stepping_threads
from devmind.algorithms.ppo import minibatches, normalize, policy_change, ppo_loss
from devmind.algorithms.returns import generalized_advantages
from devmind.algorithms.rollout import Rollout, Tree, next_values, rows, stack
from devmind.curriculum.stage import Context
from devmind.learners.gradient import Learner
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.restarting import Restarting
from devmind.worlds.side_by_side import Joined


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
    for chosen in minibatches(collected.mask, settings.epochs, settings.batches, order):
        choice, value = network(rows(collected.observation, chosen))
        old, log_prob = rows(collected.log_prob, chosen), choice.log_prob(rows(collected.action, chosen))
        loss = ppo_loss(
            log_prob, old, rows(advantage, chosen), value, rows(target, chosen), choice.entropy(),
            clip=settings.clip, entropy_weight=settings.entropy,
        )  # fmt: skip
        optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        for parameters in clipped:
            nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimizer.step()
    divergence, outside = policy_change(log_prob.detach(), old, clip=settings.clip)
    return {"value loss": loss.value.detach(), "kl": divergence, "clipped": outside}


class Arc:
    """A reflex arc of an agent and its critic as an `ActorCritic`: heads `{effector}_arc` and `{effector}_value`.

    An observation is what the arc taps, `tokens` [N, K, D] and `present` [N, K]: each tick is encoded once, and only
    the senses that the arc reads.
    """

    def __init__(self, agent: Agent, effector: str) -> None:
        self.agent, self.effector = agent, effector
        self.arc, self.critic = agent.head(f"{effector}_arc"), agent.head(f"{effector}_value")
        self.tap = agent.tap_of(f"{effector}_arc")
        self.senses = tapped_senses(self.tap)
        self.n_tokens = {sense: agent.encoder(sense).n_tokens for sense in self.senses}
        self.carried: dict[str, tuple[Tensor, Tensor]] = {}

    def read(self, senses: Senses, first: np.ndarray) -> dict[str, Tensor]:
        """`tokens` and `present`; carries what encoders of change need to the next tick."""
        read, self.carried = self._read(senses, first)
        return read

    def peek(self, senses: Senses) -> dict[str, Tensor]:
        """What the next tick would read, in rows whose episode goes on."""
        n = len(next(iter(senses.values())))
        return self._read(senses, np.zeros(n, bool))[0]

    def _read(self, senses: Senses, first: np.ndarray) -> tuple[dict[str, Tensor], dict[str, tuple[Tensor, Tensor]]]:
        needed = {k: v for k, v in senses.items() if k in self.senses or self.tap == f"raw:{k}"}
        batch: Batch = to_device(collate_tick(needed, first), self.agent.device)
        with torch.inference_mode():
            seen = self.agent.encode_batch(batch, self.senses, self.carried).map(lambda x: x[:, 0])
            tapped = read_tap(self.tap, seen, self.n_tokens)
        assert tapped is not None, f"the worlds of '{self.tap}' give none of its senses"
        carried = {
            name: (batch["senses"][name][:, 0], batch["present"][name][:, 0])
            for name in seen.encoded
            if self.agent.encoder(name).uses_previous
        }
        return {"tokens": tapped.tokens, "present": tapped.present}, carried

    def __call__(self, observation: Tree) -> tuple[Categorical | Normal, Tensor]:
        """What the arc and its critic answer."""
        assert isinstance(observation, dict)
        tapped = Tapped(observation["tokens"], observation["present"])
        return self.arc(tapped), self.critic(tapped).mode()

    def as_command(self, action: Tensor) -> np.ndarray:
        """A choice among a table's commands is that command."""
        table = getattr(self.arc, "table", None)
        return np.asarray((action if table is None else table[action]).detach().cpu().numpy())

    def parts(self) -> nn.ModuleList:
        """Both heads."""
        return nn.ModuleList([self.arc, self.critic])


@dataclass(frozen=True)
class Drill:
    """What one training step of one arc is.

    Attributes:
        effector: `{effector}_arc` acts and `{effector}_value` is its critic.
        world, levels: practised in, the levels side by side.
        rows: in each level.
        ticks: length of a rollout.
        ppo: how it learns; the entropy's weight falls linearly to a tenth.
        learning_rate: at the start; it falls linearly to a tenth.
        log_std: of the actions at the lesson's start and end.
        lasting: rows start anew when they end, and go on from one training step to the next.
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


class PolicyLearner(Learner):
    """Proximal policy optimisation of an agent's arcs, one drill a training step; all else of the agent is fixed.

    Batches name the drill. What lasting drills practise in is kept in `extra_state`.

    Args:
        drills: by name.
        heirs: arcs and critics, and the heads whose reading of the tokens they take over when the lesson begins.
        keepers: heads that keep their reading while rewards teach them to answer.
        crowd: scales every drill's rows.
    """

    def __init__(
        self,
        agent: Agent,
        context: Context,
        drills: Mapping[str, Drill],
        *,
        heirs: Mapping[str, str] | None = None,
        keepers: Sequence[str] = (),
        crowd: float = 1.0,
    ) -> None:
        super().__init__(agent, steps=0, seed=context.seed)
        self.automatic_optimization = False
        self.context, self.drills, self.crowd = context, dict(drills), crowd
        self.heirs, self.keepers = dict(heirs or {}), tuple(keepers)
        self.lasting: dict[str, Any] = {}
        self.env_steps = 0

    def extra_state(self) -> dict[str, Any]:
        """The lasting worlds' states, as tensors."""
        return {
            name: {key: torch.from_numpy(value.copy()) for key, value in vars(world.state()).items()}
            for name, world in self.lasting.items()
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Let lasting worlds go on."""
        for name, tensors in state.items():
            world = self._made(name, self.drills[name].levels[0])
            kept = {key: value.cpu().numpy().copy() for key, value in tensors.items()}
            world.restore(type(world.state())(**kept))
            self.lasting[name] = world

    def on_fit_start(self) -> None:
        """Freeze all but arcs and critics; how widely arcs explore follows a schedule, not a gradient."""
        if self.update == 0:
            for heir, teacher in self.heirs.items():
                self.agent.head(heir).start_from(self.agent.head(teacher))
        self.agent.requires_grad_(False)
        for effector in self._effectors():
            for name, parameter in Arc(self.agent, effector).parts().named_parameters():
                parameter.requires_grad_(not name.endswith("log_std"))
        for keeper in self.keepers:
            for parameter in self.agent.head(keeper).reading():
                parameter.requires_grad_(False)

    def on_fit_end(self) -> None:
        """Give every parameter its gradient back for the lessons to come."""
        self.agent.requires_grad_(True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, one group an arc; what has no gradient in a step is left as it is."""
        arcs = [Arc(self.agent, effector) for effector in self._effectors()]
        groups = [{"params": [p for p in arc.parts().parameters() if p.requires_grad]} for arc in arcs]
        return torch.optim.Adam(groups, lr=1e-3, eps=1e-5)

    def _effectors(self) -> list[str]:
        return list(dict.fromkeys(drill.effector for drill in self.drills.values()))

    def training_step(self, batch: Mapping[str, Any], batch_idx: int) -> None:
        """One rollout and one update of the drill that the batch names.

        On one intra-op thread: these are thousands of small operations, which two threads only slow down. In full
        precision: the ratio of two probabilities of one action is close to 1.
        """
        name = batch["drill"]
        drill, gone, arc = (
            self.drills[name],
            self.update / max(1, self.steps),
            Arc(self.agent, self.drills[name].effector),
        )
        with stepping_threads(), torch.autocast(self.agent.device.type, enabled=False):
            self._set_exploration(arc, drill, gone)
            collected, level = self._practise(name, drill, arc)
            scalars = self._improve(name, drill, arc, collected, level, gone)
        self.env_steps += int(collected.mask.sum())
        scalars["reward"] = collected.reward.sum() / collected.reward.shape[1]
        self.report({f"{name}/{key}": value for key, value in scalars.items()})

    def _set_exploration(self, arc: Arc, drill: Drill, gone: float) -> None:
        if drill.log_std is not None:
            first, last = drill.log_std
            arc.arc.get_parameter("log_std").data.fill_(first + gone * (last - first))

    def _practise(self, name: str, drill: Drill, arc: Arc) -> tuple[Rollout[Any, Tensor], Tensor]:
        """The rollout, and the level of each row, int64 [N]."""
        generator = torch_generator(self.seed, "motor", name, self.update, device=self.agent.device)
        if drill.lasting:
            kept = self.lasting.get(name) or self._made(name, drill.levels[0])
            state = kept.state()
            world: Any = Restarting(kept, numpy_rng(self.seed, "motor", name, "starts", self.update))
            collected = collect(arc, world, drill.ticks, generator, first=state.tick == 0)
            self.lasting[name] = world
            level = torch.zeros(world.num_envs, dtype=torch.long)
        else:
            world = Joined([self._made(name, level) for level in drill.levels])
            collected = collect(arc, world, drill.ticks, generator)
            level = torch.repeat_interleave(torch.arange(len(world.sizes)), torch.tensor(world.sizes))
        return collected, level.to(collected.reward.device)

    def _made(self, name: str, level: str) -> Any:
        """A level's world with rows of this training step; a lasting drill's, of its first."""
        drill = self.drills[name]
        names = (name,) if drill.lasting else (level, self.update)
        seeds = lesson_seeds(max(4, round(drill.rows * self.crowd)), self.seed, "motor", *names)
        return self.context.make_world(drill.world, level, seeds)

    def _improve(
        self, name: str, drill: Drill, arc: Arc, collected: Rollout[Any, Tensor], level: Tensor, gone: float
    ) -> dict[str, Tensor]:
        left = 1 - 0.9 * gone
        optimizer: torch.optim.Optimizer = self.optimizers(use_pl_optimizer=False)  # type: ignore[assignment]
        for group in optimizer.param_groups:
            group["lr"] = drill.learning_rate * left
        settings = replace(drill.ppo, entropy=drill.ppo.entropy * left)
        order = torch_generator(self.seed, "motor", name, "order", self.update)
        sides = [list(part.parameters()) for part in (arc.arc, arc.critic)]
        return improve(arc, optimizer, collected, settings, order, sides, level)
