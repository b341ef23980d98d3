"""Learning by gradient on a loss: AdamW with warm-up and linear decay, rehearsal of earlier lessons, and lessons taught
in this way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from devmind.agent.config import ANEW, by_size
from devmind.agent.taps import Tap
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Rehearsed, Scalars
from devmind.errors import ConfigError

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.learners.growth import Growth

Loss = Callable[["Agent", Any], tuple[Tensor, Mapping[str, Tensor]]]

SHARED = ("trunk.", "readout", "recalled_", "age.")
"""Prefixes of the parameters that all stages share: trunk with slots, readout token, marks of recalled tokens."""

LAYERS = "trunk.decoder.layers."
"""Prefix of the names of the trunk's layers; each layer's number follows."""
EARLIER = {"trunk": 0.3, "heads": 0.1}
"""Shares of a lesson's learning rate for what an earlier stage has taught: what all stages share, and heads. At the
full rate, reading undid reaching within 50 steps, through the heads more than through the trunk (docs/log.md,
2026-11-23).
"""


def stages_of_parts(agent: Agent, stage: str | None = None) -> set[str]:
    """The stage names whose parts belong to `stage`, by default the agent's last stage.

    These are its own name, that of a replaced trunk (ANEW), and for an agent's first stage "newborn".
    """
    stages = list(agent.config.stages) or ["newborn"]
    stage = stage or stages[-1]
    return {stage, ANEW, "newborn"} if stages[0] == stage else {stage, ANEW}


def grown_layers(agent: Agent, stages: Container[str]) -> tuple[str, ...]:
    """Prefixes of the parameters of trunk layers that one of `stages` has grown."""
    config = agent.config
    born = config.layers - len(config.grown)
    return tuple(f"{LAYERS}{born + at}." for at, stage in enumerate(config.grown) if stage in stages)


def owned_parts(agent: Agent, stage: str) -> tuple[str, ...]:
    """Prefixes of the parameters of the encoders and heads that `stage` has added."""
    named = (("encoders", agent.config.encoders), ("heads", agent.config.heads))
    return tuple(f"{kind}.{entry['name']}." for kind, entries in named for entry in entries if entry["stage"] == stage)


def rate_of(agent: Agent) -> Callable[[str], float]:
    """A function from a parameter's name to its share of a lesson's rate in the agent's last stage (`EARLIER`).

    An encoder of an earlier stage has the full rate, since a stage trains it only to see things of another kind.
    """
    mine, config = stages_of_parts(agent), agent.config
    if not config.stages:
        return lambda name: 1.0
    theirs = tuple(f"heads.{entry['name']}." for entry in config.heads if entry["stage"] not in mine)
    shared = SHARED if config.trunk_stage not in mine else ()
    grown = grown_layers(agent, mine)

    def rate(name: str) -> float:
        if name.startswith(grown):
            return 1.0
        return EARLIER["trunk"] if name.startswith(shared) else EARLIER["heads"] if name.startswith(theirs) else 1.0

    return rate


def trainable(agent: Agent, stage: str | None = None) -> tuple[str, ...]:
    """Prefixes of the parameters that a stage may train, as learners take them for `trains`.

    These are the trunk, the stage's own encoders and heads, and heads of earlier stages that read the trunk, since the
    trunk changes and rehearsal keeps them right. Encoders and reflex arcs of earlier stages stay bit-identical, so keys
    and names in memory stay valid. The parts of a newborn belong to its first stage.

    Args:
        stage: by default the agent's present stage (the last of `agent.config.stages`); an agent in none trains all.
    """
    if stage is None and not agent.config.stages:
        return ("",)
    mine = stages_of_parts(agent, stage)
    encoders = [entry["name"] for entry in agent.config.encoders if entry["stage"] in mine]
    heads = [entry["name"] for entry in agent.config.heads if entry["stage"] in mine or Tap.of(entry["tap"]).on_trunk]
    return (*SHARED, *(f"encoders.{name}." for name in encoders), *(f"heads.{name}." for name in heads))


def without_shared(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Those prefixes that name nothing of what all stages share: what a control trains of them, as its trunk lets all
    tokens through and does not learn."""
    return tuple(prefix for prefix in prefixes if not prefix.startswith(SHARED))


def schedule(update: int, steps: int, warm_up: int = 20, decay_from: float = 0.3) -> float:
    """Factor on the learning rate: linear warm-up, 1, and linear decay to zero after a share `decay_from` of steps."""
    if update < warm_up:
        return (update + 1) / warm_up
    left = (steps - update) / max(1.0, steps * (1 - decay_from))
    return max(0.0, min(1.0, left))


class GradientLearner(Learner):
    """Minimises `loss(agent, batch) -> (loss, scalars to report)` over the parameters named by `trains`.

    Args:
        steps: number of steps of the whole lesson; the runner sets it.
        trains: prefixes of parameter names to train ('' trains everything), by default `trainable(agent)`; all other
            parameters are frozen.
        decay_from: share of the steps after which rates fall.

    Attributes:
        slowed: by prefix of parameter names, the share of the rate for parameters that an earlier lesson of the same
            stage has taught (`slower`).
        growth: what is born and dies beside the trained layers of the trunk; None: nothing.
    """

    mixes: ClassVar[bool] = True
    slowed: Mapping[str, float] = {}
    growth: Growth | None = None

    def __init__(
        self,
        agent: Agent,
        loss: Loss,
        *,
        seed: int,
        learning_rate: float,
        steps: int = 0,
        trains: Sequence[str] | None = None,
        weight_decay: float = 0.02,
        decay_from: float = 0.3,
    ) -> None:
        super().__init__(agent, seed=seed, trains=trainable(agent) if trains is None else trains)
        self.steps, self.loss = steps, loss
        self.learning_rate, self.weight_decay, self.decay_from = learning_rate, weight_decay, decay_from
        # Computed now, since in a study's joint arm the agent is in another stage when the optimizer is made.
        self.of_stage = rate_of(agent)
        self._optimizer: torch.optim.Optimizer | None = None
        self._clipped: list[nn.Parameter] = []

    @property
    def distributes(self) -> bool:  # type: ignore[override]
        """Whether a class has no update of its own, which may go down several losses or none."""
        return type(self).update is GradientLearner.update and self.growth is None

    def trained_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and parameters that this lesson changes."""
        for name, parameter in self.agent.named_parameters():
            if name.startswith(self.trains):
                yield name, parameter

    def make_optimizer(self) -> torch.optim.Optimizer:
        """AdamW; weight decay applies to matrices, not to vectors and gains."""
        # Not fused: on a CPU torch 2.13 then steps numbers by the gradients of others, without a word, where a gradient
        # lies in memory in another order than its parameter, as behind `autograd.grad`.
        return torch.optim.AdamW(self.groups({}), lr=self.learning_rate, betas=(0.9, 0.95), foreach=True)

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """The kind of a parameter, which selects its options in `groups`."""
        return "vector" if parameter.ndim < 2 else "matrix"

    def groups(self, options: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The trained parameters as an optimizer's groups, by kind, with the `options` of each kind.

        Parameters taught by earlier stages, and those in `slowed`, form groups with a lower rate.
        """
        slowed = self.slowed

        def share(name: str) -> float:
            return self.of_stage(name) * next((slow for prefix, slow in slowed.items() if name.startswith(prefix)), 1.0)

        found: dict[tuple[str, float], list[nn.Parameter]] = defaultdict(list)
        for name, parameter in self.trained_parameters():
            found[self.kind(name, parameter), share(name)].append(parameter)
        if not found:
            raise ConfigError(f"The learner trains nothing: no parameter of the agent begins with {self.trains}.")
        decays = {"matrix": {"weight_decay": self.weight_decay}, "vector": {"weight_decay": 0.0}}
        made = []
        for (kind, part), parameters in found.items():
            group = {"params": parameters, "rate": self.learning_rate, **({**decays, **options}[kind])}
            made.append(group | {"rate": group["rate"] * part})
        return made

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer, made at first use, when the agent is on its device."""
        if self._optimizer is None:
            self._optimizer = self.make_optimizer()
            # Finding them walks through all modules, which would cost a twentieth of every step.
            self._clipped = [parameter for _, parameter in self.trained_parameters()]
        return self._optimizer

    def update(self, batch: Any, step: int) -> Scalars:
        """One step down the loss; the learning rate depends only on the step's number."""
        self.set_rates(step)
        if isinstance(batch, Rehearsed):
            prefix, (loss, scalars) = "rehearsal/", batch.learner.rehearse(batch.batch)
        else:
            prefix, (loss, scalars) = "", self.loss(self.agent, batch)
        _check_loss(loss)
        self.descend(loss)
        scalars = {"loss": loss.detach(), **scalars}
        return {prefix + name: value for name, value in scalars.items()} | (self.growth.scalars if self.growth else {})

    def set_rates(self, step: int) -> None:
        """Set every group's learning rate for this step."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * schedule(step, self.steps, decay_from=self.decay_from)

    def descend(self, loss: Tensor) -> None:
        """One optimizer step; the global norm is clipped at 1, since rendered scenes sometimes give an outlier."""
        self.optimizer.zero_grad()
        # The Trainer's autocast is meant for forward passes.
        with torch.autocast(loss.device.type, enabled=False):
            self.backward(loss)
        self.step_down()

    def step_down(self) -> None:
        """One optimizer step with the present gradients, clipped as in `descend`."""
        optimizer, growth = self.optimizer, self.growth
        nn.utils.clip_grad_norm_([*self._clipped, *(growth.leaves() if growth else ())], 1.0, foreach=True)
        optimizer.step()
        if growth:
            growth.update(optimizer.param_groups[0]["lr"] / optimizer.param_groups[0]["rate"], optimizer)

    def begin(self, step: int) -> None:
        """Prepare for training, and for growth if the lesson grows."""
        super().begin(step)
        if self.growth:
            self.growth.begin(self.steps)

    def end(self) -> None:
        """Let every parameter have a gradient again; what has grown becomes a part of the agent's matrices."""
        if self.growth:
            self.growth.end()
        super().end()

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, None before the first update; and what has grown, if anything does."""
        grown = {"growth": self.growth.state_dict()} if self.growth and self.growth.layers else {}
        return {"optimizer": None if self._optimizer is None else self._optimizer.state_dict(), **grown}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        if self.growth and "growth" in state:
            self.growth.load_state_dict(state["growth"])
        if state["optimizer"] is not None:
            self.optimizer.load_state_dict(state["optimizer"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The lesson's own loss."""
        return self.loss(self.agent, batch)


def _check_loss(loss: Tensor) -> None:
    """Refuse a loss from which nothing can be learned.

    Raises:
        ConfigError: it is no single number, or no trained parameter takes part in it.
    """
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        came = f"shape {list(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        raise ConfigError(f"A loss is one number; got {came}. Take the mean, or the loss that the head's output gives.")
    if not loss.requires_grad:
        raise ConfigError(
            "The loss has no gradient: nothing that the lesson trains takes part in it. Let it train what the loss is "
            "computed from (`trains`), and leave out `detach()`, `no_grad` and `evaluate`."
        )


def slower(lesson: Lesson, slowed: Mapping[str, float]) -> Lesson:
    """The lesson, with a lower rate for parameters that earlier lessons of its stage have taught.

    Args:
        slowed: shares of the rate, by prefix of parameter names.
    """

    def make_learner(agent: Agent, context: Context) -> Learner:
        learner = lesson.make_learner(agent, context)
        if not isinstance(learner, GradientLearner):
            raise ConfigError(f"The lesson '{lesson.name}' has no learning rate; only a GradientLearner can be slowed.")
        learner.slowed = slowed
        return learner

    return replace(lesson, make_learner=make_learner)


def sum_losses(
    losses: Mapping[str, Tensor], scalars: Mapping[str, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """What a `Loss` returns: the sum of `losses`, and each of them and `scalars` to report."""
    reported = {name: value.detach() for name, value in {**losses, **(scalars or {})}.items()}
    return torch.stack(list(losses.values())).sum(), reported


def head_loss(head: str, target: str, scalar: str = "") -> Loss:
    """The loss of one head on the batch's entry `target`, reported under the head's name or as `scalar`."""

    def loss(agent: Agent, batch: Any) -> tuple[Tensor, Mapping[str, Tensor]]:
        value = agent(batch, [head])[head].loss(batch[target])
        return value, {scalar or head: value.detach()}

    return loss


GROW: Mapping[str, Any] = {
    "grow": 0,
    "grow_size": 16,
    "grow_every": 0,
    "grow_deaths": 0,
    "grow_synapses": 1.0,
    "grow_regrow": 0.0,
    "grow_rate": 1.0,
    "grow_own_deaths": 0,
}
"""Options of every lesson by `gradient_lesson` (`devmind.learners.growth.Options`); by default nothing grows."""


def grow(learner: GradientLearner, options: Mapping[str, Any]) -> None:
    """Let groups of neurons be born and die beside the trunk's layers that a learner trains, as the options say.

    Raises:
        ConfigError: it trains none, or they cannot grow.
    """
    if not (options["grow"] or options["grow_own_deaths"]):
        return
    from devmind.learners.growth import Growth, Options

    count = learner.agent.trunk.n_layers
    layers = tuple(at for at in range(count) if f"{LAYERS}{at}.mlp.".startswith(learner.trains))
    learner.growth = Growth(
        learner.agent,
        Options.of(options),
        layers,
        learning_rate=learner.learning_rate,
        weight_decay=learner.weight_decay,
        seed=learner.seed,
    )


TINY_ROWS = 8
"""Rows of a batch at size tiny, unless a lesson says otherwise."""


def gradient_lesson(
    context: Context,
    name: str,
    loss: Loss,
    make: Callable[[Agent, Context, int, int, int], Any],
    *,
    steps: Mapping[str, int],
    rows: int | Mapping[str, int],
    learning_rate: float,
    minutes: float,
    trains: Callable[[Agent], Sequence[str]] = trainable,
    learner: Callable[..., GradientLearner] = GradientLearner,
    prefetch: bool = False,
    **more: Any,
) -> Lesson:
    """A lesson taught by gradient on `loss`; the configuration may change its rows and learning rate.

    Args:
        make: `(agent, context, update, rows, steps) -> batch`; with `prefetch` it must not read the agent.
        steps: by size.
        rows: of a batch, by size; a number is TINY_ROWS at size tiny.
        trains: gives the prefixes of the parameters that the lesson changes.
        more: further arguments of Lesson.
    """
    size = context.config.size
    if size not in steps:
        raise ConfigError(f"The lesson '{name}' has no steps for size {size}, only for {', '.join(steps)}; add them.")
    rows = rows if isinstance(rows, Mapping) else by_size(rows, tiny=TINY_ROWS)
    count, rate = context.changed(name, rows[size], learning_rate)

    def make_learner(agent: Agent, context: Context) -> GradientLearner:
        made = learner(agent, loss, seed=context.seed, learning_rate=rate, trains=trains(agent))
        grow(made, context.options(name, GROW))
        return made

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, context.rows(count), steps), steps, prefetch)

    settings = (*more.pop("settings", Lesson.settings), *GROW)
    return Lesson(name, make_learner, make_batches, steps[size], minutes, settings=settings, **more)
