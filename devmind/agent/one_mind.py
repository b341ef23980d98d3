"""One mind: an agent with the senses, effectors and head names of another, whose trunk does the work.

What stages learned apart, in layers, arcs and heads of their own, is to be taught to one wider trunk and light heads
(`devmind.curriculum.consolidation`). The new agent begins with everything of the specialist that fits: encoders, marks
of recalled memories, slots, and heads that are light already. Its trunk has a width of its own inside, and features of
the specialist's width outside (`Trunk.inlet`, `outlet`), so the specialist's features are a direct target. The inlet is
orthonormal and the layers begin as the identity, so at birth its features are those of a specialist whose layers pass
everything through.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import llama_config, zero_outputs
from devmind.agent.encoders import named_seed
from devmind.errors import ConfigError

WIDTH, LAYERS = {"tiny": 32, "nursery": 256, "child": 768, "adult": 1536}, {"tiny": 2, "nursery": 6}
"""By size; sizes without layers here keep those of the size."""
ROOMS = ("shared layers", "slots and marks", "encoders", "heads that generate", "arcs", "light heads")
"""Where weights live; shared are those that tokens of all senses pass."""


@dataclass(frozen=True)
class OneMind:
    """The new agent, and why heads of the specialist stay as they are, by name."""

    agent: Agent
    stays: Mapping[str, str]


def one_mind(
    specialist: Agent,
    reflexes: Collection[str] = (),
    *,
    width: int | None = None,
    layers: int | None = None,
    seed: int = 0,
) -> OneMind:
    """An agent with the names of `specialist`, a fresh trunk and light heads.

    Args:
        reflexes: arcs that have to be fast and stay arcs.
        width, layers: of the trunk; by default those of the specialist's size.

    Raises:
        ConfigError: the width is no multiple of an attention head's, or there is no layer.
    """
    was = specialist.config
    width, layers = width or WIDTH[was.size], layers or LAYERS.get(was.size, was.layers - len(was.grown))
    each = was.width // was.attention_heads
    if width % each or width < 1 or layers < 1:
        raise ConfigError(
            f"A trunk of one mind has one layer or more, and a width that is a multiple of {each}, the width of this "
            f"agent's attention heads; got {layers} layers of width {width}."
        )
    stays: dict[str, str] = {}
    heads = [_light(specialist, entry, reflexes, stays) for entry in copy.deepcopy(was.heads)]
    given = {**was.to_dict(), "trunk": _llama(was, width, layers), "layers": layers, "heads": heads, "seed": seed}
    given |= {"grown": [], "deep": {}, "neurons": [], "pretrained": None, "trunk_source": None, "one_mind": True}
    agent = Agent(AgentConfig.from_dict(copy.deepcopy(given)))
    agent.kept_tensors = dict(specialist.kept_tensors)
    _begin(agent.trunk, getattr(specialist.trunk.decoder.norm, "weight", torch.ones(was.width)), seed)
    _copy(specialist, agent)
    return OneMind(agent.eval(), stays)


def _llama(was: AgentConfig, width: int, layers: int) -> dict[str, Any]:
    heads = width // (was.width // was.attention_heads)
    inner = AgentConfig(width=width, layers=layers, attention_heads=heads, rebase_at=was.rebase_at)
    return llama_config(inner).to_dict()


def _light(agent: Agent, entry: dict[str, Any], reflexes: Collection[str], stays: dict[str, str]) -> dict[str, Any]:
    """The entry of a head's light form; `stays` is told why a head has none."""
    name, was = entry["name"], agent.config.tracker or {}
    if name not in agent.heads:
        stays[name] = "its plugin is missing"
        return entry
    if name in (was.get("detects"), was.get("depth"), was.get("names")):
        stays[name] = "it feeds the beliefs that the trunk is given, so it cannot read the trunk"
        return entry
    if name in reflexes:
        stays[name] = "a reflex has to be fast"
        return entry
    head, tap = agent.head(name), agent.tap_of(name)
    light = head.light(entry["part"], entry["options"])
    if light is None:
        stays[name] = f"a {type(head).__name__} has no light form (Head.light)"
        return entry
    part, options = light
    entry |= {"part": part, "options": options}
    if not head.reads_senses:
        specs = [_on_trunk(agent, one.spec, one.sense) for one in tap.parts]
        entry["tap"] = specs[0] if len(specs) == 1 else specs
    return entry


def _on_trunk(agent: Agent, spec: str, sense: str | None) -> str:
    """A part of a tap, moved from a sense to the trunk's features of it, if that sense enters the trunk."""
    enters = sense is not None and sense in agent.encoders and agent.encoder(sense).enters
    return f"trunk:{sense}" if enters and not spec.startswith("trunk") else spec


@torch.no_grad()
def _begin(trunk: Any, gain: torch.Tensor, seed: int) -> None:
    """Let a trunk begin as the identity, up to its norm and the `gain` [D] of the specialist's."""
    for layer in trunk.decoder.layers:
        zero_outputs(layer)
    if isinstance(trunk.inlet, nn.Linear):
        with named_seed(seed, "inlet"):
            nn.init.orthogonal_(trunk.inlet.weight)
        into = trunk.inlet.weight
        # The norm divides by the root of the mean square over the inner width.
        trunk.outlet.weight.copy_(gain[:, None] * into.T * (into.shape[1] / into.shape[0]) ** 0.5)
        nn.init.zeros_(trunk.inlet.bias)
        nn.init.zeros_(trunk.outlet.bias)
    else:
        trunk.decoder.norm.weight.copy_(gain)


@torch.no_grad()
def _copy(specialist: Agent, agent: Agent) -> None:
    """Copy everything but layers and changed heads, of which none begins half as another head was."""
    theirs, mine = specialist.state_dict(), agent.state_dict()
    pairs = zip(agent.config.heads, specialist.config.heads, strict=True)
    fresh = [f"heads.{new['name']}." for new, old in pairs if form_of(new) != form_of(old)]
    names = [name for name in mine if not name.startswith(("trunk.decoder.", "trunk.inlet.", "trunk.outlet.", *fresh))]
    for name in names:
        mine[name].copy_(theirs[name])


def layer_prefixes(agent: Agent) -> tuple[str, ...]:
    """Prefixes of what a twin does not learn: its layers stay the identity, so whatever it can do needs no mind."""
    return tuple(f"trunk.decoder.layers.{number}." for number in range(agent.trunk.n_layers))


def weights_by_room(agent: Agent) -> dict[str, int]:
    """The number of an agent's weights in each of `ROOMS`; layers of a stage's own tokens count to what generates."""
    found = Counter(dict.fromkeys(ROOMS, 0))
    for name, parameter in agent.named_parameters():
        kind, _, rest = name.partition(".")
        room = "slots and marks"
        if kind == "trunk" and not rest.startswith("slots"):
            room = "heads that generate" if name.startswith(_of_some_tokens(agent)) else "shared layers"
        elif kind == "encoders":
            room = "encoders"
        elif kind == "heads":
            room = _room_of(agent, rest.split(".")[0])
        found[room] += parameter.numel()
    return dict(found)


def _of_some_tokens(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the layers that only some tokens pass."""
    born = agent.trunk.n_layers - len(agent.config.grown)
    grown = [born + at for at, stage in enumerate(agent.config.grown) if stage in agent.config.deep]
    return tuple(f"trunk.decoder.layers.{number}." for number in grown)


def _room_of(agent: Agent, head: str) -> str:
    if agent.head(head).generates:
        return "heads that generate"
    return "light heads" if agent.tap_of(head).on_trunk else "arcs"


def form_of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a head's parameters depend on besides what it taps."""
    return entry["part"], entry["options"]


def shared_share(rooms: Mapping[str, int]) -> float:
    """The share of the weights that tokens of all senses pass: layers, slots and marks."""
    return (rooms["shared layers"] + rooms["slots and marks"]) / sum(rooms.values())
