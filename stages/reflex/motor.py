"""The motor lesson: arcs learn by PPO on the tokens of encoders that perception has taught, which stay fixed here.

One training step is one update of one arc: children act for some ticks in freshly seeded worlds, then the arc and its
critic learn from what came of it. The arcs take turns in a fixed cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.output import Categorical, Normal
from devmind.agent.threads import stepping_threads
from devmind.algorithms.ppo import minibatches, normalize, policy_change, ppo_loss
from devmind.algorithms.returns import generalized_advantages
from devmind.algorithms.rollout import Rollout, Step, Tree, collect, rows
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import Learner
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.cartpole import CartPoleRules, CartPoleState
from stages.reflex.practice import Carts, Episodes, as_tapped, carts_from_tensors, carts_to_tensors


@dataclass(frozen=True)
class Drill:
    """What one update of one arc is.

    Attributes:
        arc: the effector; `{arc}_arc` acts and `{arc}_value` is its critic.
        levels: of the nursery, practised side by side; none for CartPole.
        children: in each level.
        ticks: length of a rollout.
        discount, gae_lambda: of the advantages.
        learning_rate: at the start; it falls linearly to a tenth.
        epochs, batches: passes over a rollout, and minibatches in each.
        log_std: of the actions at the lesson's start and end.
        entropy: weight of the entropy at the start; it falls linearly to a tenth.
    """

    arc: str
    levels: tuple[str, ...]
    children: int
    ticks: int
    discount: float = 0.0
    gae_lambda: float = 0.9
    learning_rate: float = 1e-3
    epochs: int = 3
    batches: int = 3
    log_std: tuple[float, float] | None = None
    entropy: float = 0.0


# Turning pays at once by how much nearer it brings, so a discount of zero learns fastest; orient stops one tick short
# of its closing bonus, which would drown that. Reaching must go round what stands in the way, so it looks ahead.
# Startle needs a high entropy at first: quiet ticks teach to rest long before the few looming objects are told apart.
DRILLS = {
    "orient": Drill("look", ("orient/sight", "orient/sound", "orient/motion"), 32, 9, log_std=(-1.0, -2.0)),
    "track": Drill("look", ("track",), 48, 12, log_std=(-1.0, -2.0)),
    "reach": Drill("reach", ("reach",), 160, 8, discount=0.9, epochs=4, batches=4, log_std=(-0.7, -1.5)),
    "startle": Drill("move", ("startle",), 64, 20, entropy=0.2, batches=4),
    "balance": Drill("push", (), 32, 32, discount=0.98, gae_lambda=0.8, learning_rate=2e-3, epochs=10, batches=4),
}
HEIRS = {"reach_arc": "whereabouts", "reach_value": "whereabouts", "move_arc": "event", "move_value": "event"}
"""Arcs and critics, and the heads of perception whose reading of the tokens they take over and keep: what perception
was told about thousands of rooms, rewards can only blur."""
KEEPERS = (*HEIRS, "look_arc")
"""Those that keep their reading while rewards teach them to answer; the looking arc has its from the lesson `gaze`."""
CYCLE = (
    "balance", "orient", "reach", "startle", "balance", "reach", "startle",
    "balance", "track", "reach", "startle", "balance", "orient", "reach", "startle",
)  # fmt: skip
STEPS = {"tiny": 15, "nursery": 525, "child": 2100, "adult": 6000}
CLIP = 0.2
MAX_GRAD_NORM = 0.5


class PolicyLearner(Learner):
    """Proximal policy optimisation of the arcs, one drill a training step; everything else of the agent is fixed.

    Batches name the drill. The carts of `balance` live on between updates and are kept in `extra_state`.
    """

    def __init__(self, agent: Agent, context: Context, crowd: float = 1.0) -> None:
        super().__init__(agent, steps=0, seed=context.seed)
        self.automatic_optimization = False
        self.context, self.crowd = context, crowd
        self.carts: CartPoleState | None = None
        self.env_steps = 0

    def extra_state(self) -> dict[str, Any]:
        """The carts that are still rolling."""
        return {} if self.carts is None else {"carts": carts_to_tensors(self.carts)}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Let the carts roll on."""
        self.carts = carts_from_tensors(state["carts"]) if "carts" in state else None

    def on_fit_start(self) -> None:
        """Freeze all but arcs and critics; how widely arcs explore follows a schedule, not a gradient.

        At the lesson's start some arcs take over what perception has learned (see `HEIRS`).
        """
        if self.update == 0:
            for heir, teacher in HEIRS.items():
                self.agent.head(heir).start_from(self.agent.head(teacher))
        self.agent.requires_grad_(False)
        for arc in _arcs():
            for name, parameter in self._both(arc).named_parameters():
                parameter.requires_grad_(not name.endswith("log_std"))
        for keeper in KEEPERS:
            for parameter in self.agent.head(keeper).reading():
                parameter.requires_grad_(False)

    def on_fit_end(self) -> None:
        """Give every parameter its gradient back for the lessons to come."""
        self.agent.requires_grad_(True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, one group an arc; what has no gradient in a step is left as it is."""
        groups = [{"params": [p for p in self._both(arc).parameters() if p.requires_grad]} for arc in _arcs()]
        return torch.optim.Adam(groups, lr=1e-3, eps=1e-5)

    def _both(self, arc: str) -> nn.ModuleList:
        return nn.ModuleList([self.agent.head(f"{arc}_arc"), self.agent.head(f"{arc}_value")])

    def training_step(self, batch: Mapping[str, Any], batch_idx: int) -> None:
        """One rollout and one update of the drill that the batch names.

        On one intra-op thread: these are thousands of small operations, which two threads only slow down. In full
        precision: the ratio of two probabilities of one action is close to 1.
        """
        name = batch["drill"]
        drill, gone = DRILLS[name], self.update / max(1, self.steps)
        with stepping_threads(), torch.autocast(self.agent.device.type, enabled=False):
            self._set_exploration(drill, gone)
            rollout, level = self._practise(name, drill)
            scalars = self._improve(name, drill, rollout, level, gone)
        self.env_steps += int(rollout.mask.sum())
        scalars["reward"] = rollout.reward.sum() / rollout.reward.shape[1]
        self.report({f"{name}/{key}": value for key, value in scalars.items()})

    def _set_exploration(self, drill: Drill, gone: float) -> None:
        if drill.log_std is not None:
            first, last = drill.log_std
            spread = self.agent.head(f"{drill.arc}_arc").get_parameter("log_std")
            spread.data.fill_(first + gone * (last - first))

    def _act(self, drill: Drill, observation: Tree) -> tuple[Categorical | Normal, Tensor]:
        tapped = as_tapped(observation)
        return self.agent.head(f"{drill.arc}_arc")(tapped), self.agent.head(f"{drill.arc}_value")(tapped).mode()

    def _practise(self, name: str, drill: Drill) -> tuple[Rollout, Tensor]:
        """The rollout, and the level of each child, int64 [N]."""
        place = self._carts(name, drill) if not drill.levels else self._episodes(name, drill)
        table = getattr(self.agent.head(f"{drill.arc}_arc"), "table", None)

        def policy(observation: Tree, generator: torch.Generator) -> tuple[Tree, Tensor, Tensor]:
            output, value = self._act(drill, observation)
            action = output.sample(generator)
            return action, output.log_prob(action), value

        def step(action: Tree) -> Step:
            assert isinstance(action, Tensor)
            return place.step(action if table is None else table[action])

        generator = torch_generator(self.seed, "motor", name, self.update, device=self.agent.device)
        rollout, _ = collect(
            policy,
            lambda observation: self._act(drill, observation)[1],
            step,
            place.observe(),
            drill.ticks,
            generator,
            autoreset=not drill.levels,
        )
        if isinstance(place, Carts):
            self.carts = place.state
        return rollout, place.level.to(rollout.reward.device)

    def _count(self, drill: Drill) -> int:
        return max(4, round(drill.children * self.crowd))

    def _episodes(self, name: str, drill: Drill) -> Episodes:
        worlds = [
            self.context.make_world(
                "nursery", level, lesson_seeds(self._count(drill), self.seed, "motor", level, self.update)
            )
            for level in drill.levels
        ]
        return Episodes(self.agent, f"{drill.arc}_arc", drill.arc, worlds)

    def _carts(self, name: str, drill: Drill) -> Carts:
        if self.carts is None:
            self.carts = CartPoleRules().initial(lesson_seeds(self._count(drill), self.seed, "motor", name))
        starts = numpy_rng(self.seed, "motor", name, "starts", self.update)
        return Carts(self.agent, f"{drill.arc}_arc", self.carts, starts)

    def _improve(self, name: str, drill: Drill, rollout: Rollout, level: Tensor, gone: float) -> dict[str, Tensor]:
        advantage, target = generalized_advantages(
            rollout.reward,
            rollout.value,
            rollout.next_value,
            rollout.terminal,
            rollout.last,
            discount=drill.discount,
            gae_lambda=drill.gae_lambda,
            mask=rollout.mask,
        )
        for index in level.unique():
            mine = level == index
            advantage[:, mine] = normalize(advantage[:, mine], rollout.mask[:, mine])
        optimizer: torch.optim.Optimizer = self.optimizers(use_pl_optimizer=False)  # type: ignore[assignment]
        for group in optimizer.param_groups:
            group["lr"] = drill.learning_rate * (1 - 0.9 * gone)
        sides = [list(self.agent.head(f"{drill.arc}_{side}").parameters()) for side in ("arc", "value")]
        order = torch_generator(self.seed, "motor", name, "order", self.update)
        for chosen in minibatches(rollout.mask, drill.epochs, drill.batches, order):
            output, value = self._act(drill, rows(rollout.observation, chosen))
            old, log_prob = rows(rollout.log_prob, chosen), output.log_prob(rows(rollout.action, chosen))
            loss = ppo_loss(
                log_prob, old, rows(advantage, chosen), value, rows(target, chosen), output.entropy(),
                clip=CLIP, entropy_weight=drill.entropy * (1 - 0.9 * gone),
            )  # fmt: skip
            optimizer.zero_grad(set_to_none=True)
            loss.total.backward()
            for side in sides:
                nn.utils.clip_grad_norm_(side, MAX_GRAD_NORM)
            optimizer.step()
        divergence, outside = policy_change(log_prob.detach(), old, clip=CLIP)
        return {"value loss": loss.value.detach(), "kl": divergence, "clipped": outside}


def _arcs() -> list[str]:
    return list(dict.fromkeys(drill.arc for drill in DRILLS.values()))


def lesson(context: Context) -> Lesson:
    """The lesson as data, its length by the context's size."""
    size = context.config.size

    def learner(agent: Agent, context: Context) -> PolicyLearner:
        return PolicyLearner(agent, context, crowd=0.1 if size == "tiny" else 1.0)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"drill": CYCLE[update % len(CYCLE)]}, steps)

    return Lesson("motor", learner, batches, STEPS[size], 3.5, skills=("orient", "balance"))
