"""The laws of a world: of Rules (pure batched functions) and of any gymnasium.Env for an agent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devmind.errors import MomentError
from devmind.moment import STANDARD_SENSES, check_sense
from devmind.testing.laws import BrokenLawError, difference, require

SOUND_TOLERANCE: Mapping[str, float] = {"sound": 1e-6}
"""Tolerance between N children together and N single ones: sums of waves depend on the order of addition."""

MOST_STEPS = 500
"""Steps after which the check stops playing an episode."""


def check_world(
    world: Any, *, ticks: int = 12, children: int = 3, tolerance: Mapping[str, float] = SOUND_TOLERANCE
) -> None:
    """Check the laws of a world: Rules, or a gymnasium.Env (a simulated, replayed or wrapped one).

    Args:
        world: Rules or an Env; the check does not reset an Env at its end, so give one made for it.
        ticks: the number of random actions.
        children: the number of children of Rules that are stepped together.
        tolerance: by sense, the largest difference of N together from N singles; other senses must be bit-equal.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    _check_spaces(world)
    if isinstance(world, gymnasium.Env):
        _check_env(world, ticks)
    else:
        _check_rules(world, ticks, children, tolerance)


def _check_spaces(world: Any) -> None:
    law = "a world has Dict spaces, senses and effectors by name"
    for kind in ("observation_space", "action_space"):
        space = getattr(world, kind, None)
        require(isinstance(space, spaces.Dict), law, f"{kind} is {type(space).__name__}")
    for name, space in world.observation_space.spaces.items():
        _check_standard(name, space)


def _check_standard(name: str, space: spaces.Space) -> None:
    """A sense with a standard name keeps the standard's dtype and shape."""
    standard = STANDARD_SENSES.get(name)
    law = f"the sense '{name}' is {standard.meaning}" if standard else "an own sense is a numeric array"
    if standard and standard.dtype == "str":
        require(isinstance(space, spaces.Text), law, f"its space is {space}")
        return
    shaped = space.shape is not None and space.dtype is not None
    require(shaped, law, f"its space is {space}, which has no shape")
    _keeps_sense_law(name, np.zeros(space.shape or (), space.dtype), law)


def _keeps_sense_law(name: str, value: Any, law: str) -> None:
    try:
        check_sense(name, value)
    except MomentError as error:
        raise BrokenLawError(f"Law: {law}. Found: {error}") from None


def _inside(world: Any, senses: Mapping[str, Any]) -> None:
    """Check that every present sense lies in its space; senses may be absent."""
    for name, value in senses.items():
        law = "what a world observes lies in its observation_space"
        require(name in world.observation_space.spaces, law, f"a sense '{name}' that the space does not have")
        _keeps_sense_law(name, value, f"the sense '{name}' keeps its standard")
        space = world.observation_space[name]
        require(bool(space.contains(value)), law, f"'{name}' = {_short(value)} outside {space}")
        numbers = isinstance(value, np.ndarray) and value.dtype.kind == "f" and name != "body"
        law = "what a world observes is finite (a body's missing numbers alone are NaN)"
        require(not numbers or bool(np.isfinite(value).all()), law, f"'{name}' = {_short(value)}")


def _short(value: Any) -> str:
    if not isinstance(value, np.ndarray) or not value.size:
        return repr(value)[:60]
    return f"{value.dtype} {list(value.shape)} from {value.min():.4g} to {value.max():.4g}"


# --- Rules


def _check_rules(rules: Any, ticks: int, children: int, tolerance: Mapping[str, float]) -> None:
    for member in ("name", "level", "horizon", "initial", "legal", "step", "outcome", "observe", "truth"):
        require(hasattr(rules, member), "Rules have name, level, horizon and six functions", f"no '{member}'")
    seeds = np.arange(11, 11 + children, dtype=np.int64)
    state = rules.initial(seeds)
    require(len(state) == children, "initial(seeds) gives one row a seed", f"{len(state)} rows for {children} seeds")
    again = difference(_arrays(rules.initial(seeds)), _arrays(state))
    require(not again, "the same seeds give the same first states", again)
    singles = [rules.initial(seeds[i : i + 1]) for i in range(children)]
    rules.action_space.seed(7)
    for tick in range(ticks):
        _check_observation(rules, state, children)
        _check_alone(rules, state, singles, tick, tolerance)
        actions = _random_actions(rules, state, children)
        before, copied = _arrays(state.copy()), state.copy()
        following = rules.step(state, actions)
        changed = difference(_arrays(state), before)
        require(not changed, "step leaves the given state untouched", f"after tick {tick}: {changed}")
        restored = difference(_arrays(rules.step(copied, actions)), _arrays(following))
        require(not restored, "a copied state goes on as the original", f"at tick {tick}: {restored}")
        _check_outcome(rules.outcome(following), children)
        alone = [{name: value[i : i + 1] for name, value in actions.items()} for i in range(children)]
        singles = [rules.step(single, action) for single, action in zip(singles, alone, strict=True)]
        state = following
    idle = rules.step(state, {})
    require(len(idle) == children, "a missing effector does nothing", f"step(state, {{}}) gave {len(idle)} rows")
    _check_ending(rules, state, ticks, children)


def _check_ending(rules: Any, state: Any, made: int, children: int) -> None:
    """Play on until all episodes have ended, and a little longer; `made` steps were made before."""
    if rules.horizon is not None:
        for _ in range(min(rules.horizon - made, MOST_STEPS)):
            if bool(_ended(rules, state).all()):
                break
            state = rules.step(state, _random_actions(rules, state, children))
        going = int((~_ended(rules, state)).sum())
        over = not going or rules.horizon - made > MOST_STEPS
        require(over, "no episode is longer than the horizon", f"{going} go on after {rules.horizon} steps")
    ended = _ended(rules, state)
    for _ in range(2):
        state = rules.step(state, _random_actions(rules, state, children))
        reward = rules.outcome(state).reward[ended]
        law = "an ended child stays ended and earns nothing"
        require(bool(_ended(rules, state)[ended].all()), law, "one goes on after its end")
        require(not reward.any(), law, f"a reward of {reward[reward != 0][:1]} after the end")


def _ended(rules: Any, state: Any) -> np.ndarray:
    outcome = rules.outcome(state)
    return np.asarray(outcome.terminal | outcome.truncated)


def _arrays(state: Any) -> dict[str, np.ndarray]:
    return {field.name: np.asarray(getattr(state, field.name)) for field in fields(state)}


def _check_observation(rules: Any, state: Any, children: int) -> None:
    before = _arrays(state.copy())
    senses, again = rules.observe(state), rules.observe(state)
    same = difference(senses, again) or difference(_arrays(state), before)
    require(not same, "observe is a pure function of the state", same)
    for kind, values in (("observe", senses), ("truth", rules.truth(state))):
        for name, value in values.items():
            law = f"{kind} gives one row a child"
            require(len(value) == children, law, f"'{name}' has {len(value)} rows for {children} children")
    for i in range(children):
        _inside(rules, {name: value[i] for name, value in senses.items() if not _silent(value[i])})
    for name, mask in rules.legal(state).items():
        fits = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and len(mask) == children
        require(fits, "legal gives bool [N, choices] by effector", f"'{name}' = {_short(mask)}")
        require(bool(mask.any(axis=1).all()), "some choice is always legal", f"'{name}' has none for a child")


def _silent(value: Any) -> bool:
    """Whether a value is the '' of a child that hears no words, which the adapter leaves out."""
    return isinstance(value, str) and not value


def _check_alone(rules: Any, state: Any, singles: list[Any], tick: int, tolerance: Mapping[str, float]) -> None:
    law = "N children stepped together equal N single ones"
    together, senses = _arrays(state), rules.observe(state)
    for i, single in enumerate(singles):
        rows = difference({name: value[i : i + 1] for name, value in together.items()}, _arrays(single))
        mine = {name: value[i : i + 1] for name, value in senses.items()}
        rows = rows or difference(mine, rules.observe(single), tolerance)
        require(not rows, law, f"child {i} at tick {tick}: {rows}")


def _random_actions(rules: Any, state: Any, children: int) -> dict[str, np.ndarray]:
    """Legal random actions, arrays [N, ...] by effector."""
    legal = rules.legal(state)
    actions = {}
    for name, space in rules.action_space.spaces.items():
        masks = legal.get(name)
        drawn = [
            space.sample(mask=masks[i].astype(np.int8)) if masks is not None else space.sample()
            for i in range(children)
        ]
        actions[name] = np.stack([np.asarray(value) for value in drawn])
    return actions


def _check_outcome(outcome: Any, children: int) -> None:
    members = {"reward": np.float32, "terminal": np.bool_, "truncated": np.bool_}
    for name, dtype in {**members, "player": np.int64, "discount": np.float32}.items():
        value = getattr(outcome, name, None)
        fits = isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == (children,)
        require(fits, f"an outcome's {name} is {np.dtype(dtype)} [N]", _short(value))
    require(bool(np.isfinite(outcome.reward).all()), "a reward is a finite number", _short(outcome.reward))
    counted = outcome.discount[outcome.terminal]
    require(not counted.any(), "nothing counts after a terminal: its discount is 0", _short(counted))


# --- gymnasium.Env


def _check_env(env: gymnasium.Env, ticks: int) -> None:
    first = _episode(env, ticks)
    second = _episode(env, ticks)
    law = "the same seed and the same actions give the same experience"
    require(len(first) == len(second), law, f"{len(first)} ticks, then {len(second)}")
    for tick, ((senses, reward), (again, reward_again)) in enumerate(zip(first, second, strict=True)):
        found = difference(senses, again) or (f"reward {reward} and {reward_again}" if reward != reward_again else "")
        require(not found, law, f"at tick {tick}: {found}")
    if hasattr(env, "restore") and hasattr(env, "state"):
        _check_restore(env)


def _episode(env: gymnasium.Env, ticks: int) -> list[tuple[dict[str, Any], float]]:
    env.action_space.seed(7)
    senses, info = env.reset(seed=11)
    require(isinstance(info, dict), "reset gives (senses, info dict)", f"info is {type(info).__name__}")
    seen = [(senses, _copy_senses(senses), 0.0)]
    for _ in range(ticks):
        _inside(env, senses)
        senses, reward, terminated, truncated, _ = env.step(_random_action(env))
        flags = isinstance(terminated, bool | np.bool_) and isinstance(truncated, bool | np.bool_)
        require(flags, "terminated and truncated are bool", f"{terminated!r} and {truncated!r}")
        require(math.isfinite(reward), "a reward is a finite number", repr(reward))
        seen.append((senses, _copy_senses(senses), float(reward)))
        if terminated or truncated:
            break
    _inside(env, senses)
    for tick, (given, kept, _) in enumerate(seen):
        later = difference(given, kept)
        require(not later, "a world never changes what it has given", f"the Moment of tick {tick}: {later}")
    return [(kept, reward) for _, kept, reward in seen]


def _random_action(env: Any) -> Any:
    """A random action; in a world of Rules a legal one."""
    if not (hasattr(env, "rules") and hasattr(env, "state")):
        return env.action_space.sample()
    masks = env.rules.legal(env.state())
    return {
        name: space.sample(mask=masks[name][0].astype(np.int8)) if name in masks else space.sample()
        for name, space in env.action_space.spaces.items()
    }


def _copy_senses(senses: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in senses.items()}


def _check_restore(env: Any) -> None:
    env.reset(seed=12)
    action, kept = _random_action(env), env.state()
    senses, reward, *_ = env.step(action)
    env.restore(kept)
    again, reward_again, *_ = env.step(action)
    found = difference(senses, again) or ("" if reward == reward_again else f"reward {reward} and {reward_again}")
    require(not found, "a restored world goes on as it did", found)
