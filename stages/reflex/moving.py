"""The exams of orient, track, reach and startle: the agent's own step path, arcs answering, most likely action."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.nursery.goals import ORIENTED_DEG, TRACKED_DEG
from devmind.worlds.nursery.state import NO_EVENT, WITHDRAWN
from stages.reflex import hand_rules
from stages.reflex.evidence import png, side_by_side

TOGETHER = 100
LOUDER, LARGER = 6.0, 1.25
EPISODES = 400
SHOWN = 4
ORIENT_TICKS, TRACK_TICKS, REACH_TICKS, STARTLE_TICKS = 10, 30, 30, 20

Player = Callable[[Mapping[str, Any], bool], Mapping[str, np.ndarray]]
Watch = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], np.ndarray]


class Child:
    """N children with one agent's weights, deciding by its step path; senses in `off` are absent.

    `answered` counts, by head, the decisions it made.
    """

    def __init__(self, agent: Agent, effector: str, off: Sequence[str] = ()) -> None:
        self.agent, self.effector, self.off = agent, effector, frozenset(off)
        self.answered: dict[str, int] = {}

    def __call__(self, senses: Mapping[str, Any], first: bool) -> dict[str, np.ndarray]:
        """The actions of one tick; a new state at the first."""
        n = len(senses["body"])
        if first:
            self.state = self.agent.new_state(n)
        felt = {name: value for name, value in senses.items() if name not in self.off}
        percepts = self.agent.encode(self.state, collate_tick(felt, np.full(n, first)))
        self.state, output = self.agent.step(self.state, percepts, effectors=[self.effector], trunk=False)
        for head, count in output.answered[self.effector].items():
            self.answered[head] = self.answered.get(head, 0) + count
        return {name: value.cpu().numpy() for name, value in output.action.items()}

    def told(self) -> str:
        """Who answered, in words."""
        return ", ".join(f"{head} {count}" for head, count in self.answered.items() if count) or "nobody"


@dataclass
class Played:
    """Episodes as they went: what was watched [ticks, N], and first and last pictures uint8 [N, 64, 64, 3]."""

    watched: np.ndarray
    first_sight: np.ndarray
    last_sight: np.ndarray


@dataclass(frozen=True)
class Trial:
    """A level with fixed seeds; every player meets the same episodes.

    Attributes:
        watch: (truth before, actions) if `before`, else (truth after, actions), to one number a child.
    """

    context: Context
    level: str
    ticks: int
    seeds: np.ndarray
    watch: Watch
    before: bool = False

    def play(self, make: Callable[[], Player], n: int | None = None, told: bool = False) -> Played:
        """Let a fresh player play the first `n` episodes (all by default), 100 side by side."""
        seeds = self.seeds[:n]
        parts = [self._play(make(), part, told) for part in np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))]
        return Played(
            np.concatenate([part.watched for part in parts], 1),
            np.concatenate([part.first_sight for part in parts]),
            np.concatenate([part.last_sight for part in parts]),
        )

    def _play(self, player: Player, seeds: np.ndarray, told: bool) -> Played:
        world = self.context.make_world("nursery", self.level, seeds)
        senses, watched = world.observe(), []
        shown = senses["sight"]
        for tick in range(self.ticks):
            truth = world.truth() if told or self.before else {}
            actions = player(truth if told else senses, tick == 0)
            senses = world.step(actions)[0]
            watched.append(self.watch(truth if self.before else world.truth(), actions))
        return Played(np.stack(watched), shown, senses["sight"])


def _error(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    return truth["error_deg"]


def _strips(
    kind: Literal["example", "failure"], played: Played, which: np.ndarray, captions: Sequence[str]
) -> tuple[Exhibit, ...]:
    """First and last sight of the episodes `which`, side by side."""
    strips = [side_by_side(played.first_sight[i], played.last_sight[i]) for i in which]
    return tuple(Exhibit(kind, text, png=png(strip)) for strip, text in zip(strips, captions, strict=True))


def _n(context: Context, level: str, n: int) -> int:
    return context.episodes(n) if level == "full" else max(8, context.episodes(n) // 5)


# -- orient ------------------------------------------------------------------------------------------------------------

CUES: dict[str, tuple[float, Callable[[], Player], str]] = {
    "sight": (0.95, hand_rules.LookAtBlob, "turn to the oddest blob"),
    "sound": (0.85, hand_rules.LookAtSound, "turn by the ears' delay"),
    "motion": (0.60, hand_rules.LookAtChange, "turn to the change in the wide view"),
}
ORIENT_GATE = Gate([Threshold(f"orient/{cue}", bound) for cue, (bound, _, _) in CUES.items()])
_OFF = {"sight": "sight", "sound": "sound", "motion": "periphery"}


def examine_orient(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Share of episodes whose gaze is within 10 degrees of the target when one second is over, cue by cue."""
    return [_orient(agent, context, level, cue) for cue in CUES]


def _orient(agent: Agent, context: Context, level: str, cue: str) -> Measure:
    name, n = f"orient/{cue}", _n(context, level, EPISODES)
    trial = Trial(context, name, ORIENT_TICKS, exam_seeds(n, context.seed, name), _error)
    child = Child(agent, "look")
    played = trial.play(lambda: child)
    last = played.watched[-1]
    right = last <= ORIENTED_DEG
    full = level == "full"
    _, rule, rule_name = CUES[cue]
    rng = numpy_rng(context.seed, name, "random")

    def share(make: Callable[[], Player], n: int | None = None) -> float:
        return float((trial.play(make, n).watched[-1] <= ORIENTED_DEG).mean())

    wrong = np.flatnonzero(~right)[:SHOWN]
    floors = {}
    if full:
        floors = {
            "hold still": share(hand_rules.HoldStill),
            "random": share(lambda: hand_rules.Random("look", 2, rng)),
            rule_name: share(rule),
        }
    return Measure(
        name,
        "episodes within 10 degrees after one second",
        right.astype(np.float64),
        chance=floors.get("random", 0.0),
        ceiling=1.0,
        rate=True,
        floors=floors,
        rows={f"{_OFF[cue]} off": share(lambda: Child(agent, "look", [_OFF[cue]]), n // 2)} if full else {},
        reference=_REFERENCES[cue],
        note=f"answered by {child.told()}; median error {np.median(last):.1f} degrees",
        exhibits=_strips("failure", played, wrong, [f"{last[i]:.0f} degrees off at the end" for i in wrong])
        if full
        else (),
    )


_REFERENCES = {
    "sight": "a probe of the same task: 1.00 with a supervised eye",
    "sound": "a probe of the same task: 0.85 with interaural lags, 0.39 without",
    "motion": "a probe of the same task: 0.33 from a memoryless pair of pictures",
}

# -- track -------------------------------------------------------------------------------------------------------------

TRACK_GATE = Gate([Threshold("track", 0.90)])


def examine_track(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Fraction of an episode's ticks with the gaze within 5 degrees of a wandering object."""
    n, full = _n(context, level, EPISODES // 2), level == "full"
    trial = Trial(context, "track", TRACK_TICKS, exam_seeds(n, context.seed, "track"), _error)
    child = Child(agent, "look")
    played = trial.play(lambda: child)

    def kept(played: Played) -> np.ndarray:
        return (played.watched <= TRACKED_DEG).mean(0)

    values, floors = kept(played), {}
    if full:
        floors = {
            "hold still": float(kept(trial.play(hand_rules.HoldStill)).mean()),
            "last velocity": float(kept(trial.play(hand_rules.KeepVelocity)).mean()),
        }
    worst = np.argsort(values)[:SHOWN]
    return [
        Measure(
            "track",
            "fraction of ticks within 5 degrees",
            values,
            chance=floors.get("hold still", 0.0),
            ceiling=1.0,
            floors=floors,
            rows={
                "turn to the oddest blob (rule)": float(kept(trial.play(hand_rules.LookAtBlob)).mean()),
                "sight off": float(kept(trial.play(lambda: Child(agent, "look", ["sight"]), n // 2)).mean()),
            }
            if full
            else {},
            note=f"answered by {child.told()}; the first ticks, before the gaze can be there, count too",
            exhibits=_strips("failure", played, worst, [f"{values[i]:.0%} of the time within 5 degrees" for i in worst])
            if full
            else (),
        )
    ]


# -- reach -------------------------------------------------------------------------------------------------------------

REACH_GATE = Gate([Threshold("reach", 0.90)])


def examine_reach(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Share of episodes in which the first object touched is the one of the colour asked for."""
    n, full = _n(context, level, EPISODES), level == "full"
    trial = Trial(context, "reach", REACH_TICKS, exam_seeds(n, context.seed, "reach"), first_touch)
    child = Child(agent, "reach")
    played = trial.play(lambda: child)

    def right(played: Played) -> np.ndarray:
        first = np.argmax(played.watched != 0, axis=0)
        return played.watched[first, np.arange(len(first))] > 0

    values, floors, ceiling = right(played), {}, 1.0
    if full:
        rng = numpy_rng(context.seed, "reach", "random")
        floors = {"random": float(right(trial.play(lambda: hand_rules.Random("reach", 4, rng))).mean())}
        ceiling = float(right(trial.play(hand_rules.ReachByTruth, told=True)).mean())
    wrong = np.flatnonzero(~values)[:SHOWN]
    touched = (played.watched != 0).any(0)
    return [
        Measure(
            "reach",
            "episodes in which the asked colour is touched first",
            values.astype(np.float64),
            chance=floors.get("random", 0.0),
            ceiling=ceiling,
            rate=True,
            floors=floors,
            rows={"words off": float(right(trial.play(lambda: Child(agent, "reach", ["words"]), n // 2)).mean())}
            if full
            else {},
            note=f"answered by {child.told()}; something was touched in {touched.mean():.0%}; "
            "the ceiling is a straight reach by ground truth",
            exhibits=_strips(
                "failure",
                played,
                wrong,
                ["touched another colour" if touched[i] else "touched nothing in 3 s" for i in wrong],
            )
            if full
            else (),
        )
    ]


def first_touch(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    """1 where the target is the nearest thing touched, -1 where something else is, 0 where nothing is."""
    return np.where(truth["touched_index"] < 0, 0, np.where(truth["success"], 1, -1))


# -- startle -----------------------------------------------------------------------------------------------------------

STARTLE_GATE = Gate([Threshold("startle", 0.95), Threshold("startle/false alarms", 0.02)])
QUIET, ALARM, MISSED, ANSWERED, AFTER = range(5)
EVENTS = {1: "bang", 2: "looming object"}


def withdrawal(truth: Mapping[str, np.ndarray], actions: Mapping[str, np.ndarray]) -> np.ndarray:
    """What a child's tick was, by the truth before it acted: QUIET or ALARM until an event comes, MISSED or ANSWERED in
    the event's first two ticks, AFTER them."""
    withdrew = actions["move"][:, 0] <= WITHDRAWN if "move" in actions else np.zeros(len(truth["tick"]), bool)
    since = np.where(truth["event"] == NO_EVENT, -1, truth["tick"] - truth["event_tick"])
    before, during = np.where(withdrew, ALARM, QUIET), np.where(withdrew, ANSWERED, MISSED)
    return np.where(since < 0, before, np.where(since <= 1, during, AFTER))


def examine_startle(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Share of bangs and looming objects withdrawn from within a tick, and of quiet ticks with a false alarm."""
    n, full = _n(context, level, EPISODES), level == "full"
    seeds = startle_seeds(context, n)
    trial = Trial(context, "startle", STARTLE_TICKS, seeds, withdrawal, before=True)
    child = Child(agent, "move")
    played = trial.play(lambda: child)
    event = context.make_world("nursery", "startle", seeds).state().event
    answered, alarms = _startled(played.watched, event)
    floors: list[dict[str, float]] = [{}, {}]
    rows: list[dict[str, float]] = [{}, {}]
    if full:
        for name, louder, larger in (
            ("energy threshold", LOUDER, np.inf),
            ("size threshold", np.inf, LARGER),
            ("either threshold", LOUDER, LARGER),
        ):
            ruled = trial.play(partial(hand_rules.LoudOrGrowing, louder, larger))
            for k, values in enumerate(_startled(ruled.watched, event)):
                floors[k][name] = float(values.mean())
        for off in ("sound", "sight"):
            changed = trial.play(partial(Child, agent, "move", [off]), n // 2)
            for k, values in enumerate(_startled(changed.watched, event[: n // 2])):
                rows[k][f"{off} off"] = float(values.mean())
    for number, name in EVENTS.items():
        rows[0][f"{name}s only"] = float(answered[event[event != NO_EVENT] == number].mean())
    rows[1]["episodes with any false alarm"] = float((played.watched == ALARM).any(0).mean())
    wrong = np.flatnonzero(event != NO_EVENT)[~answered][:SHOWN]
    return [
        Measure(
            "startle", "events withdrawn from within one tick", answered.astype(np.float64), chance=0.0, ceiling=1.0,
            rate=True, floors=floors[0], rows=rows[0], note=f"answered by {child.told()}",
            exhibits=_strips("failure", played, wrong, [f"missed a {EVENTS[event[i]]}" for i in wrong]) if full else (),
        ),
        Measure(
            "startle/false alarms", "share of the ticks before an event", alarms, chance=1.0, ceiling=0.0,
            floors=floors[1], rows=rows[1], higher_is_better=False,
            note="every episode counts until its event, if one comes",
        ),
    ]  # fmt: skip


def startle_seeds(context: Context, n: int) -> np.ndarray:
    """The first seeds that hold `n` episodes with an event, and those without one that lie between."""
    seeds = exam_seeds(4 * n, context.seed, "startle")
    events = np.flatnonzero(context.make_world("nursery", "startle", seeds).state().event != NO_EVENT)
    return seeds[: events[n - 1] + 1]


def _startled(watched: np.ndarray, event: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(was it answered, bool, of the episodes with an event; share of an episode's quiet ticks with an alarm, [N])."""
    alarms, quiet = (watched == ALARM).sum(0), (watched <= ALARM).sum(0)
    return (watched == ANSWERED).any(0)[event != NO_EVENT], alarms / np.maximum(quiet, 1)
