"""Learning by a population: thousands of small networks in the place of one head's, by gradient or by their fitness.

`PopulationLearner` trains members on features of a head's tap, each with settings and data of its own;
`EvolutionLearner` lets copies of any head on senses live in a world's `Rules`, all at once, and selects. After each
update the best member (or an ensemble of the best) stands in the agent's ordinary head, so exams, lives and saved
agents know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from devmind.acting import Policy, Senses
from devmind.acting.rollout import Actions, Steppable, returns
from devmind.agent.agent import Agent
from devmind.agent.heads import FollowingHead, ReaderHead
from devmind.agent.output import Categorical, Output, Regression
from devmind.agent.rows import Carry, initial_carry
from devmind.agent.taps import Tapped
from devmind.agent.threads import stepping_threads
from devmind.algorithms import evolution
from devmind.algorithms import population as many
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Scalars
from devmind.errors import ConfigError, nearest
from devmind.learners.actor_critics import Arc
from devmind.seeding import derive_seed, lesson_seeds, torch_generator
from devmind.worlds.adapter import VectorWorld

UNREHEARSED = "A population trains one small head and no layer of the trunk, so no later lesson undoes it."
AT_ONCE = 16_384
"""Rows of a world that live at once: more gain nothing and leave a core's cache."""
RECENT = 0.9
"""Share of a member's earlier losses in its running mean, by which members are compared."""


class HeadNet:
    """The small network of an agent's head, and its shape as that of a population's member.

    Raises:
        ConfigError: the head's answer does not come from one network (`ReaderHead`).
    """

    def __init__(self, agent: Agent, name: str) -> None:
        head = agent.head(name)
        if not isinstance(head, ReaderHead):
            raise ConfigError(
                f"A population takes the place of one small network; the head '{name}' ({type(head).__name__}) is made "
                "of several. Name a categorical, normal, regression or value head."
            )
        self.agent, self.name, self.head, self.net = agent, name, head, head.read.net
        linear = [layer for layer in self.net if isinstance(layer, nn.Linear)]
        self.sizes = (linear[0].in_features, *(layer.out_features for layer in linear))
        kinds = {layer: kind for kind, layer in many.ACTIVATIONS.items()}
        self.activation = kinds[type(self.net[1])] if len(self.net) > 1 else "relu"
        self.dtype, self.device = linear[0].weight.dtype, linear[0].weight.device

    @property
    def trains(self) -> tuple[str, ...]:
        """The prefix of the parameters that a population replaces; what reads the tokens before stays."""
        return (f"heads.{self.name}.read.net.",)

    def features(self, tapped: Tapped) -> Tensor:
        """The network's input [N, F]."""
        tokens = self.head.read.squeeze(tapped.tokens) * tapped.present[..., None]
        return tokens.flatten(-2).flatten(0, -2)

    @torch.no_grad()
    def read(self, batch: Any) -> Tensor:
        """The features of a batch's Moments, [B T, F]."""
        tap = self.agent.tap_of(self.name)
        tapped = tap.read(self.agent.perceive(batch, [tap]))
        if tapped is None:
            raise ConfigError(f"The head '{self.name}' reads '{tap}', of which the batch has nothing.")
        return self.features(tapped)

    def write(self, members: Tensor, sizes: tuple[int, ...] | None = None) -> None:
        """Put one member's weights, or those of an ensemble whose members have other `sizes`, into the head."""
        made = many.module(members[0], self.sizes, self.activation) if len(members) == 1 else None
        self.net.load_state_dict((made or many.ensemble(members, sizes or self.sizes, self.activation)).state_dict())


class PopulationLearner(Learner):
    """Trains members by gradient on one head's features, and writes the best into the head.

    A batch is shared, but each member goes through its rows in an order of its own, `rows` at a step.

    Args:
        head: a ReaderHead, with a categorical answer or a mean square error.
        target: the batch's entry with the right answers.
        members: P.
        rates, decays: lowest and highest learning rate and weight decay; members begin spread evenly over the
            logarithm, each setting in an order of its own.
        rows: of a member's step; a batch of n rows is n // rows steps.
        ensemble: so many of the best members side by side in the head, each with its share of the hidden units.
        exploit_every: updates after which the worst take over the best ones' weights and settings; 0: never.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        seed: int,
        head: str,
        target: str,
        members: int = 64,
        rates: tuple[float, float] = (0.01, 1.0),
        decays: tuple[float, float] = (1e-5, 1e-2),
        rows: int = 16,
        ensemble: int = 1,
        exploit_every: int = 0,
    ) -> None:
        self.of = net = HeadNet(agent, head)
        super().__init__(agent, seed=seed, trains=net.trains)
        inlet = net.head.inlet
        answer = net.head(Tapped(torch.zeros(1, inlet.n_tokens, inlet.width, dtype=net.dtype, device=net.device),
                                 torch.ones(1, inlet.n_tokens, dtype=torch.bool, device=net.device)))  # fmt: skip
        if isinstance(answer, Categorical) and answer.logits.ndim == 2:
            loss = "cross-entropy"
        elif isinstance(answer, Regression) and answer.kind == "mse":
            loss = "mse"
        else:
            raise ConfigError(
                f"A population learns one class of several or numbers by their square error; the head '{head}' gives a "
                f"{type(answer).__name__} that it cannot learn by gradient."
            )
        sizes = net.sizes
        if ensemble > 1:
            if len(sizes) != 3 or sizes[1] % ensemble or ensemble > members:
                raise ConfigError(
                    f"An ensemble of {ensemble} shares the hidden units of a head with one hidden layer evenly; "
                    f"'{head}' has the sizes {sizes}, and there are {members} members."
                )
            sizes = (sizes[0], sizes[1] // ensemble, sizes[2])
        seeds = torch.tensor([derive_seed(seed, "member", head, n) for n in range(members)])
        spread = torch.linspace(0, 1, members, dtype=net.dtype)
        shuffled = [
            spread[torch.randperm(members, generator=torch_generator(seed, head, s))] for s in ("rate", "decay")
        ]
        rate, decay = (low * (high / low) ** x for (low, high), x in zip((rates, decays), shuffled, strict=True))
        self.sizes = sizes
        self.population = many.make(sizes, seeds, rate, decay, net.activation, loss, net.dtype, net.device)
        self.target, self.rows, self.ensemble, self.exploit_every = target, rows, ensemble, exploit_every
        self.recent = torch.zeros(members, dtype=torch.float64, device=net.device)
        self.replaced = 0

    def update(self, batch: Any, step: int) -> Scalars:
        """Each member's steps on the batch; then the best one is written into the head."""
        with torch.autocast(self.of.device.type, enabled=False):
            x, population = self.of.read(batch).to(self.of.dtype), self.population
            wanted = batch[self.target].to(x.device)
            wanted = wanted.flatten() if population.loss == "cross-entropy" else wanted.reshape(len(x), -1).to(x.dtype)
            rows = min(self.rows, len(x))
            losses = many.train(population, x, wanted, len(x) // rows, rows).mean(1)
        self.recent = losses if step == 0 else RECENT * self.recent + (1 - RECENT) * losses
        order = many.ranked(population, self.recent)
        if population.aside.all():
            raise ConfigError(
                f"All {len(population)} members have a loss that is NaN or infinite, the last one at step {step}. "
                "Lower the highest learning rate."
            )
        self.of.write(population.weights[order[: self.ensemble]], self.sizes)
        rates = spread_of("learning rate", population.rates[~population.aside].sort()[0], "lowest", "highest")
        scalars = {
            **spread_of("loss", self.recent[order]),
            **rates,
            "the best one's learning rate": population.rates[order[0]],
            "the best one's weight decay": population.decays[order[0]],
            "set aside": population.aside.sum().float(),
        }
        if self.exploit_every and (step + 1) % self.exploit_every == 0:
            self.replaced += many.exploit(population, self.recent, derive_seed(self.seed, "exploit"))
        return scalars | {"replaced": float(self.replaced)}

    def state_dict(self) -> dict[str, Any]:
        """All members with their settings, and their running losses."""
        return {"population": self.population.state_dict(), "recent": self.recent, "replaced": self.replaced}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these members."""
        self.population.load_state_dict(state["population"])
        self.recent, self.replaced = state["recent"].clone().to(self.of.device), int(state["replaced"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        raise ConfigError(UNREHEARSED)


def spread_of(name: str, values: Tensor, first: str = "best", last: str = "worst") -> dict[str, Tensor]:
    """The first, median and last of the finite `values`, which are sorted; the report draws them in one figure."""
    finite = values[values.isfinite()]
    return {f"{first} {name}": finite[0], f"median {name}": finite[len(finite) // 2], f"{last} {name}": finite[-1]}


class Genome:
    """Numbers of an agent's head as a vector [D], and P such vectors in their place.

    Args:
        own: prefixes of the head's parameters that are searched; all members share the others as they are.

    Raises:
        ConfigError: the head reads the trunk, answers after right answers, or goes on with a plan.
    """

    def __init__(self, agent: Agent, name: str, own: tuple[str, ...] = ("",)) -> None:
        head, tap = agent.head(name), agent.tap_of(name)
        if tap.on_trunk or head.takes_targets or isinstance(head, FollowingHead):
            raise ConfigError(
                f"A search lets thousands of copies of a head act at once, each from its senses alone; the head "
                f"'{name}' ({type(head).__name__}) reads '{tap}'. Name one that reads senses and makes no plan."
            )
        self.agent, self.name, self.head = agent, name, head
        self.parameters = {name: p for name, p in head.named_parameters() if name.startswith(own)}
        if not self.parameters:
            raise ConfigError(f"The head '{name}' has no parameter that begins with {' or '.join(own)}.")
        self.trains = tuple(f"heads.{name}.{prefix}" for prefix in own)
        self.template = self._template()
        first = next(iter(self.parameters.values()))
        self.dtype, self.device = first.dtype, first.device

    @torch.no_grad()
    def _template(self) -> Any:
        """An output of the head if its numbers are those of one network on raw numbers, which is stacked directly: at a
        hundred members `vmap` costs more than their products. None: of another head."""
        inlet, head = self.head.inlet, self.head
        if not isinstance(head, ReaderHead) or not isinstance(head.read.squeeze, nn.Identity):
            return None
        if set(self.parameters) != {f"read.net.{name}" for name, _ in head.read.net.named_parameters()}:
            return None
        probe = torch.linspace(-1, 1, inlet.width, device=next(head.parameters()).device).expand(1, inlet.n_tokens, -1)
        tapped = Tapped(probe, torch.ones(1, inlet.n_tokens, dtype=torch.bool, device=probe.device))
        output: Any = head(tapped)
        return output if torch.equal(output.numbers().flatten(), head.read(tapped).flatten()) else None

    def __len__(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters.values())

    def read(self) -> Tensor:
        """The head's present numbers, on the CPU."""
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters.values()]).cpu()

    @torch.no_grad()
    def write(self, member: Tensor) -> None:
        """Put one member [D] into the head."""
        for name, own in self.split(member).items():
            self.parameters[name].copy_(own)

    def split(self, members: Tensor) -> dict[str, Tensor]:
        """Members [..., D] by parameter, as views."""
        parts = members.split([parameter.numel() for parameter in self.parameters.values()], -1)
        return {
            name: part.unflatten(-1, parameter.shape)
            for (name, parameter), part in zip(self.parameters.items(), parts, strict=True)
        }

    @torch.no_grad()
    def answer(
        self, members: Tensor, wanted: Callable[[Output], Tensor], tapped: Tapped, carry: Carry, each: bool = True
    ) -> tuple[Tensor, Carry]:
        """What is `wanted` of each member's output, [P, ...], and what they carry on.

        Args:
            each: every member reads something of its own, [P, ...] each; else all read the same.
        """

        def one(own: dict[str, Tensor], tokens: Tensor, present: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
            read = Tapped(tokens, present)
            answer = functional_call(self.head, own, (read, carry) if self.head.carry_spec else (read,))
            output, carry = answer if self.head.carry_spec else (answer, carry)
            return wanted(output), carry

        if self.template is not None and each:
            own, x = self.split(members), (tapped.tokens * tapped.present[..., None]).flatten(-2)
            for name, layer in self.head.get_submodule("read.net").named_children():
                if isinstance(layer, nn.Linear):
                    bias, weight = own[f"read.net.{name}.bias"], own[f"read.net.{name}.weight"]
                    x = torch.baddbmm(bias[:, None], x, weight.mT)
                else:
                    x = layer(x)
            numbers = x.reshape(-1, *self.template.numbers().shape[1:])
            return wanted(self.template.with_numbers(numbers)).unflatten(0, x.shape[:2]), carry
        given = (self.split(members), tapped.tokens, tapped.present, carry)
        answers: tuple[Tensor, Carry] = vmap(one, (0, *[0 if each else None] * 3))(*given)
        return answers

    def fresh(self, count: int, generator: torch.Generator) -> Tensor:
        """Members whose layers begin as `nn.Linear` does; what stands in no layer begins as in the head."""
        members = self.read().repeat(count, 1)
        linear = {name: module for name, module in self.head.named_modules() if isinstance(module, nn.Linear)}
        parts = self.split(members)
        for layer, module in linear.items():
            bound = module.in_features**-0.5
            for own in (f"{layer}.weight", f"{layer}.bias"):
                if own in parts:
                    parts[own].uniform_(-bound, bound, generator=generator)
        return members


@dataclass(frozen=True)
class Niche:
    """Where policies live to be selected: an effector's head, a world, and how many policies try how many episodes.

    Attributes:
        levels: of the world; all members live in each.
        head: by default `{effector}_arc`.
        own: prefixes of the head's parameters that are searched; by default all.
        episodes: of a member in each level in a generation.
        spread: standard deviation of a first generation's mutations.
        rule: 'genetic' or 'strategy' (`devmind.algorithms.evolution`).
        crowd: `(genome, effector, members [P, D], world of E episodes)` gives the policy of P x E rows.
        unit: by what an episode's return is divided, so that no level outweighs the others; float64 [E] of a world at
            its beginning.
        elsewhere: `(context, generation, episodes)` gives the worlds by name where others than `make_world` begin
            them, as a feed does; None where it does not.
    """

    effector: str
    world: str
    levels: tuple[str, ...] = ("",)
    head: str = ""
    own: tuple[str, ...] = ("",)
    members: int = 128
    episodes: int = 4
    spread: float = 0.1
    rule: str = "genetic"
    crowd: Callable[[Genome, str, Tensor, VectorWorld[Any]], Policy] = lambda *given: Members(*given[:3])
    unit: Callable[[VectorWorld[Any]], np.ndarray] | None = None
    elsewhere: Callable[[Context, int, int], Mapping[str, VectorWorld[Any]] | None] = lambda *_: None


class Members:
    """P copies of an arc, each with numbers of its own [P, D], as a policy of P x E rows: member p acts in the rows
    p E to p E + E - 1."""

    def __init__(self, of: Genome, effector: str, weights: Tensor) -> None:
        self.of, self.arc, self.weights = of, Arc(of.agent, effector, of.name, of.name), weights
        self.carry: Carry | None = None

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        def apart(x: Tensor) -> Tensor:
            return x.unflatten(0, (len(self.weights), -1))

        read = self.arc.read(senses, first)
        if self.carry is None:
            zeros = initial_carry(self.of.head.carry_spec, len(first), self.of.device)
            self.carry = {name: apart(x) for name, x in zeros.items()}
        tapped = Tapped(apart(read["tokens"]), apart(read["present"]))
        command, self.carry = self.of.answer(self.weights, lambda output: output.mode(), tapped, self.carry)
        return {self.arc.effector: self.arc.as_command(command.flatten(0, 1))}


def fitness(niche: Niche, of: Genome, members: Tensor, begun: VectorWorld[Any], most: int = AT_ONCE) -> np.ndarray:
    """Each member's returns, float64 [P, E], in the E episodes that `begun` begins; all members meet the same ones.

    Args:
        most: rows that live at once, of one member at least.
    """
    state, episodes, found = begun.state(), begun.num_envs, list[np.ndarray]()
    for some in members.split(max(1, most // episodes)):
        world: VectorWorld[Any] = VectorWorld(begun.rules, len(some) * episodes)
        world.restore(state.take(np.tile(np.arange(episodes), len(some))))
        crowd: Steppable = world
        found.append(returns(niche.crowd(of, niche.effector, some, begun), crowd).reshape(len(some), episodes))
    return np.concatenate(found)


class EvolutionLearner(Learner):
    """Selects among policies by their return in a world; an update is a generation, and the fittest is written.

    Args:
        niche: the arc's head, the world and the search.
    """

    def __init__(self, agent: Agent, context: Context, niche: Niche) -> None:
        self.of = of = Genome(agent, niche.head or f"{niche.effector}_arc", niche.own)
        super().__init__(agent, seed=context.seed, trains=of.trains)
        self.context, self.niche, self.aside = context, niche, 0
        if niche.rule not in evolution.RULES:
            raise ConfigError(f"There is no search rule '{niche.rule}'{nearest(niche.rule, evolution.RULES)}")
        if niche.members < 2 or niche.episodes < 1:
            raise ConfigError(
                f"A search has two members and one episode at least; got {niche.members} and {niche.episodes}."
            )
        # The members, the next ones, and their noise.
        many.check_memory(3 * of.dtype.itemsize * niche.members * len(of), f"{niche.members:,} policies")
        generator = torch_generator(self.seed, "first generation", of.name)
        if niche.rule == "genetic":
            self.members = of.fresh(niche.members, generator)
            self.spreads = torch.full((niche.members,), niche.spread, dtype=of.dtype)
        else:
            self.members, self.spreads = evolution.around(of.read(), niche.spread, niche.members, generator)

    def update(self, batch: Any, step: int) -> Scalars:
        """One generation: all members live through the same new episodes, and the next ones are made.

        It runs on one intra-op thread, as the steps of all policies do.
        """
        niche, names = self.niche, (self.seed, "generation", self.niche.world, step)
        by_world, members = dict[str, Tensor](), self.members.to(self.of.device)
        with stepping_threads(), torch.autocast(self.agent.device.type, enabled=False):
            for name, begun in self._worlds(step).items():
                earned = fitness(niche, self.of, members, begun)
                by_world[name] = torch.from_numpy((earned / (niche.unit(begun) if niche.unit else 1.0)).mean(1))
            found = torch.stack(list(by_world.values())).mean(0)
            order = evolution.ranked(found)
            self.of.write(self.members[order[0]])
            scalars = spread_of("return", found[order])
            scalars |= spread_of("mutation", self.spreads.sort()[0], "lowest", "highest")
            scalars["the best one's mutation"] = self.spreads[order[0]]
            if len(by_world) > 1:
                scalars |= {f"{name}/the best one's return": one[order[0]] for name, one in by_world.items()}
            self.aside += int((~found.isfinite()).sum())
            rule = evolution.RULES[niche.rule]
            self.members, self.spreads = rule(self.members, self.spreads, found, torch_generator(*names))
        return scalars | {"set aside": float(self.aside)}

    def _worlds(self, step: int) -> Mapping[str, VectorWorld[Any]]:
        """By name the worlds in which generation `step` lives, at their beginning."""
        niche, names = self.niche, (self.seed, "generation", self.niche.world)
        return niche.elsewhere(self.context, step, niche.episodes) or {
            level: self.context.make_world(niche.world, level, lesson_seeds(niche.episodes, *names, level, step))
            for level in niche.levels
        }

    def state_dict(self) -> dict[str, Any]:
        """The next generation, and how many members were set aside so far."""
        return {"members": self.members, "spreads": self.spreads, "aside": self.aside}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with this generation.

        Raises:
            ConfigError: it has another number of members, or members of another shape.
        """
        if state["members"].shape != self.members.shape:
            raise ConfigError(
                f"The stored generation is {list(state['members'].shape)} and this one {list(self.members.shape)}; "
                "continue with as many members as it was begun with."
            )
        self.members, self.spreads = state["members"].clone(), state["spreads"].clone()
        self.aside = int(state["aside"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        raise ConfigError(UNREHEARSED)


def evolution_lesson(context: Context, name: str, niche: Niche, *, steps: int, minutes: float, **more: Any) -> Lesson:
    """A lesson whose steps are generations; the configuration may set its members, episodes, spread and rule."""
    own = {key: getattr(niche, key) for key in ("members", "episodes", "spread", "rule")}

    def make_learner(agent: Agent, context: Context) -> EvolutionLearner:
        chosen = context.options(name, own)
        return EvolutionLearner(agent, context, replace(niche, **chosen))

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {}, steps)

    settings = (*own, *more.pop("settings", ()))
    return Lesson(name, make_learner, make_batches, steps, minutes, settings=settings, learners=("population",), **more)


def population_lesson(
    context: Context,
    name: str,
    head: str,
    target: str,
    make: Callable[[Context, int, int], Any],
    *,
    steps: int,
    rows: int,
    minutes: float,
    members: int = 64,
    ensemble: int = 1,
    exploit_every: int = 0,
    skills: Sequence[str] = (),
    **more: Any,
) -> Lesson:
    """A lesson that trains one head by a population; its options are members, ensemble and exploit_every.

    Args:
        make: `(context, update, rows) -> batch`.
        rows: of a batch.
        more: further arguments of PopulationLearner, such as `rates`.
    """
    own = {"members": members, "ensemble": ensemble, "exploit_every": exploit_every}
    count, _ = context.changed(name, rows, 0.0)

    def make_learner(agent: Agent, context: Context) -> PopulationLearner:
        chosen = context.options(name, own)
        return PopulationLearner(agent, seed=context.seed, head=head, target=target, **chosen, **more)

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(context, update, context.rows(count)), steps)

    return Lesson(name, make_learner, make_batches, steps, minutes, skills=tuple(skills), settings=("batch", *own))
