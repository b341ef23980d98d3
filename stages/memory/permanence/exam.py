"""The exam of permanence: where is the red one, now that it is out of sight? The trunk answers by its head `place`.

Every room is played once, for the agent's variants (beliefs on and off, short-term memory on and off) and the rules
alike. After the look, a moved thing is at either of the two places not looked at, so 0.5 is the best score. For moved
things, what beliefs add to the trunk is measured room by room, and the filter that makes them is one of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.tracker import point, shares
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.nursery.hiding import AFTER_LOOKING, BEFORE_LOOKING, NOT_ASKED, PLACES, plan
from stages.memory.permanence.episodes import Tick, delays, of_delay, ticks
from stages.memory.short_term import TOGETHER

EPISODES = 400
KINDS = ("unmoved", "moved", "swapped", "a-not-b")
BOTH, SHORT, LONG, OFF = "both", "objects off (short-term alone)", "short-term off (objects alone)", "memory off"
VARIANTS: Mapping[str, tuple[bool, bool]] = {
    BOTH: (True, True),
    SHORT: (False, True),
    LONG: (True, False),
    OFF: (False, False),
}
"""Whether beliefs are recalled, and whether short-term memory is on."""
FILTER, LAST_SEEN = "the filter alone", "last-seen rule"
CHANCE_ELSEWHERE = 1 - 1 / len(PLACES)
"""Share of random answers that name another place than the empty one: the chance level."""
UNSEEN = ("moved", "swapped")
"""Kinds of rooms in which a thing goes elsewhere unseen."""
GATE = Gate(
    [
        Threshold("permanence/unmoved", 0.95),
        *(Threshold(f"permanence/{kind}", CHANCE_ELSEWHERE) for kind in UNSEEN),
        *(Threshold(f"permanence/{kind}/beliefs", None, beats_floor=True) for kind in UNSEEN),
    ]
)
_CANONICAL_DEG, _CANONICAL_M = np.array([[15.2, -9.7], [0.0, 9.7], [-15.2, -9.7]]), 1.5


@dataclass
class Answers:
    """Answers in N rooms: int64 [N] by (who, question); the truth; facts of the rooms [N]."""

    chosen: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    true: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    last_seen: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    at_first: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    delay: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    episodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, other: Answers) -> None:
        """Append the rooms of another group."""
        for name in ("true", "last_seen", "at_first", "delay", "episodes"):
            setattr(self, name, np.concatenate((getattr(self, name), getattr(other, name))))
        for key, chosen in other.chosen.items():
            self.chosen[key] = np.concatenate((self.chosen.get(key, np.zeros(0, np.int64)), chosen))

    def share(self, variant: str, question: int, targets: np.ndarray) -> float:
        """Share of `targets` [N] that `variant` answered, over the rooms it was asked in, which are the first ones."""
        chosen = self.chosen[variant, question]
        return float((chosen == targets[: len(chosen)]).mean())


def examine(agent: Agent, context: Context) -> Exam:
    """400 rooms of each level; rows on a quarter of them, but with beliefs off on all rooms of UNSEEN."""
    n = context.episodes(EPISODES)

    def played(variants: Sequence[str]) -> dict[str, Answers]:
        return {kind: answers(agent, context, kind, n, variants) for kind in KINDS}

    # The variants need what the agent senses in its rooms, so a full exam plays all at once.
    return Exam(lambda: measure_alone(played((BOTH,))), lambda: measure_in_full(played(tuple(VARIANTS))))


def measure_alone(by_kind: Mapping[str, Answers]) -> list[Measure]:
    """The measures of the agent alone."""
    moved = [_moved(kind, by_kind[kind]) for kind in UNSEEN]
    return [_unmoved(by_kind["unmoved"]), *moved, _a_not_b(by_kind["a-not-b"])]


def measure_in_full(by_kind: Mapping[str, Answers]) -> list[Measure]:
    """The same with rows of all variants and floors, and what beliefs add."""
    unmoved, *moved, a_not_b = measure_alone(by_kind)
    replies, erring = by_kind["unmoved"], by_kind["a-not-b"]
    rows = {variant: replies.share(variant, BEFORE_LOOKING, replies.true) for variant in (SHORT, LONG, OFF)}
    floors = {variant: replies.share(variant, BEFORE_LOOKING, replies.true) for variant in (LAST_SEEN, FILTER)}
    errors = {variant: erring.share(variant, BEFORE_LOOKING, erring.at_first) for variant in (SHORT, LONG, OFF)}
    at_last = {LAST_SEEN: erring.share(LAST_SEEN, BEFORE_LOOKING, erring.at_first)}
    return [
        replace(unmoved, floors=floors, rows={**unmoved.rows, **rows}),
        *(each for kind, one in zip(UNSEEN, moved, strict=True) for each in moved_in_full(kind, by_kind[kind], one)),
        replace(a_not_b, floors=at_last, rows={**a_not_b.rows, **errors}),
    ]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Rooms of lessons in which things are hidden, int64."""
    return of_lessons(context.make_world, n, context.seed, "nursery", [f"hide/{kind}" for kind in KINDS])


def answers(agent: Agent, context: Context, kind: str, n: int, variants: Sequence[str]) -> Answers:
    """The answers in `n` rooms of `hide/KIND`, by `variants` in the first rooms of every delay, and with beliefs off
    in all rooms of UNSEEN.
    """
    seeds = exam_seeds(n, context.seed, "permanence", kind)
    by_delay = [of_delay(seeds, kind, delay) for delay in delays(kind)]
    total, few = Answers(), max(1, TOGETHER // len(by_delay))
    groups = [np.split(each, range(few, len(each), TOGETHER)) for each in by_delay if len(each)]
    # The variants' rooms come first, so that `share` compares their answers with the truth of the first rooms.
    for first, *_ in groups:
        total.add(_group(agent, context, kind, first, variants))
    everywhere = [one for one in variants if one == BOTH or (one == SHORT and kind in UNSEEN)]
    for _, *rest in groups:
        for group in rest:
            total.add(_group(agent, context, kind, group, everywhere))
    return total


def _group(agent: Agent, context: Context, kind: str, seeds: np.ndarray, variants: Sequence[str]) -> Answers:
    plans, n = plan(seeds, kind), len(seeds)
    actors = {
        variant: Actor(
            agent, n, effectors=[], heads=["place"], short_term=VARIANTS[variant][1], beliefs=variant == BOTH
        )
        for variant in variants
    }
    rows = np.arange(n)
    replies = Answers(
        true=np.zeros(n, np.int64), last_seen=plans.last_seen, at_first=plans.before[rows, plans.target],
        delay=plans.delay, episodes=of_worlds(context.make_world, "nursery", f"hide/{kind}", seeds),
    )  # fmt: skip
    for tick in ticks(agent, context, kind, seeds, actors[BOTH]):
        question = int(tick.truth["question"][0])
        for variant, actor in actors.items():
            believes, remembers = VARIANTS[variant]
            if not remembers and question == NOT_ASKED:
                continue  # what remembers nothing need not live through what is not asked about
            # The full agent plays the rooms; its variants get its percepts and its beliefs.
            step = (
                tick.output
                if variant == BOTH
                else actor.step(tick.percepts, tick.output.recalled if believes else None)
            )
            if question != NOT_ASKED:
                replies.chosen[variant, question] = step.outputs["place"].mode().cpu().numpy()
        if question != NOT_ASKED:
            replies.chosen[FILTER, question] = _by_rule(tick)
            replies.chosen[LAST_SEEN, question] = plans.last_seen
            replies.true = tick.truth["place"]
    return replies


def _by_rule(tick: Tick) -> np.ndarray:
    """The place with the largest share of belief, [N]; among equals the leftmost."""
    n = len(tick.beliefs)
    azimuth, elevation = np.tile(_CANONICAL_DEG[:, 0], (n, 1)), np.tile(_CANONICAL_DEG[:, 1], (n, 1))
    places = point(azimuth, elevation, np.full_like(azimuth, _CANONICAL_M))
    colour = tick.truth["colour"][np.arange(n), tick.truth["target"]]
    return np.asarray(shares(tick.beliefs, colour, places).argmax(1))


def _unmoved(replies: Answers) -> Measure:
    right = replies.chosen[BOTH, BEFORE_LOOKING] == replies.true
    rows = {
        f"delay {delay / 10:.1f} s": float(right[replies.delay == delay].mean()) for delay in np.unique(replies.delay)
    }
    rows["after looking"] = replies.share(BOTH, AFTER_LOOKING, replies.true)
    return Measure(
        "permanence/unmoved",
        "right before looking",
        right.astype(np.float64),
        chance=1 / len(PLACES),
        rate=True,
        rows=rows,
        episodes=replies.episodes,
        note="two things at three covered places; rows with memory off are of the first rooms of each delay",
    )


NO_LUCK = "moved unseen: without luck nobody is right before looking, nor in more than half of the rooms after"


def _elsewhere(replies: Answers, variant: str) -> np.ndarray:
    return (replies.chosen[variant, AFTER_LOOKING] != replies.last_seen).astype(np.float64)


def _moved(kind: str, replies: Answers) -> Measure:
    """Share of answers other than the empty place."""
    return Measure(
        f"permanence/{kind}",
        "an answer other than the place found empty",
        _elsewhere(replies, BOTH),
        chance=CHANCE_ELSEWHERE,
        rate=True,
        rows={
            "right before looking": replies.share(BOTH, BEFORE_LOOKING, replies.true),
            "right after looking (0.5 is the best)": replies.share(BOTH, AFTER_LOOKING, replies.true),
            f"{FILTER}: right before looking": replies.share(FILTER, BEFORE_LOOKING, replies.true),
            f"{FILTER}: right after looking": replies.share(FILTER, AFTER_LOOKING, replies.true),
        },
        episodes=replies.episodes,
        note=NO_LUCK,
    )


def moved_in_full(kind: str, replies: Answers, measure: Measure) -> list[Measure]:
    """The measure beside variants and the filter, room by room, and the gain by beliefs."""
    own, ruled, rows = measure.values, _elsewhere(replies, FILTER), dict(measure.rows)
    for variant in (SHORT, LONG, OFF):
        rows[f"{variant}: elsewhere"] = 1 - replies.share(variant, AFTER_LOOKING, replies.last_seen)
        rows[f"{variant}: right after looking"] = replies.share(variant, AFTER_LOOKING, replies.true)
    gained = Measure("against the filter", "", own - ruled, 0.0, 1.0, episodes=replies.episodes)
    low, high = gained.interval()
    margin = f"{gained.score:+.3f} [{low:+.3f}, {high:+.3f}] against {FILTER}, room by room"
    floors = {LAST_SEEN: 1 - replies.share(LAST_SEEN, AFTER_LOOKING, replies.last_seen), FILTER: float(ruled.mean())}
    added = Measure(
        f"permanence/{kind}/beliefs", "rooms won by beliefs, minus rooms lost by them",
        own - _elsewhere(replies, SHORT),
        chance=0.0, ceiling=1.0, floors={"beliefs off": 0.0}, episodes=replies.episodes,
        note="the agent minus the agent without beliefs, room by room: what they add to the trunk's memory",
    )  # fmt: skip
    said = f"{NO_LUCK}; {margin}" if low > 0 else f"{NO_LUCK}; the filter does it: {margin}"
    return [replace(measure, floors=floors, rows=rows, note=said), added]


def _a_not_b(replies: Answers) -> Measure:
    error = replies.chosen[BOTH, BEFORE_LOOKING] == replies.at_first
    rows = {
        "right (B)": replies.share(BOTH, BEFORE_LOOKING, replies.true),
        FILTER: replies.share(FILTER, BEFORE_LOOKING, replies.at_first),
    }
    return Measure(
        "permanence/a-not-b",
        "answers A after the thing was hidden at B in full view",
        error.astype(np.float64),
        chance=1 / len(PLACES),
        ceiling=0.0,
        rate=True,
        higher_is_better=False,
        rows=rows,
        episodes=replies.episodes,
        reference="infants of 8 to 12 months err (Piaget, 1954)",
        note="no gate",
    )
