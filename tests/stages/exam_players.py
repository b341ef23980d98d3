"""Players that know the answers, put in the place of an agent in an exam: each reaches the ceiling unless it shuffles.

`players()[skill](patch, context, turn)` installs one; `turn(n)` is the order of its answers: their own (`np.arange`),
or those of other rows. A skill that needs a player of its own kind (a night, games, pages) has it in its own tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.output import Categorical
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.sessions.written import pictures
from devmind.worlds.nursery import hiding
from stages.memory import short_term
from stages.memory.fetch import exam as fetch
from stages.memory.match import exam as match
from stages.memory.maze import rooms as hallways
from stages.memory.permanence import episodes as hidden
from stages.memory.permanence import exam as permanence
from stages.memory.recall import exam as recall
from stages.memory.recall.doubles import Doubles
from stages.memory.recall.things import NAMES
from stages.reflex import hand_rules
from stages.reflex.balance import exam as balance
from stages.reflex.bind import exam as bind
from stages.reflex.hear import exam as hear
from stages.reflex.locate import exam as locate
from stages.reflex.locate.scene import Instances, Scene
from stages.reflex.orient import exam as orient
from stages.reflex.orient import lesson as gaze
from stages.reflex.parts import FORESEEN
from stages.reflex.reach import exam as reach
from stages.reflex.see import exam as see
from stages.reflex.startle import exam as startle
from stages.reflex.track import exam as track
from stages.reflex.trials import Trial

Turn = Callable[[int], np.ndarray]
Put = Callable[[pytest.MonkeyPatch, Context, Turn], None]
FOLDER = Path(__file__).parent


def own_tests(stage: str, skill: str) -> list[str]:
    """The tests of a stage that import the skill's folder, each as a text."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((FOLDER / stage).glob("test_*.py"))]
    return [text for text in texts if f"stages.{stage}.{skill}" in text]


def known(*pairs: tuple[np.ndarray, np.ndarray]) -> dict[bytes, Any]:
    """The answers by the bytes of what is sensed."""
    return {np.ascontiguousarray(x).tobytes(): y for seen, answers in pairs for x, y in zip(seen, answers, strict=True)}


def recalled(table: Mapping[bytes, Any], seen: Any, turn: Turn) -> np.ndarray:
    answers = [table[np.ascontiguousarray(one).tobytes()] for one in np.asarray(seen)]
    return np.array(answers)[turn(len(answers))]


def see_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    every = pictures(None)
    table = known((see.as_sight(every.images).numpy(), every.labels))
    patch.setattr(see, "_named", lambda agent, head, sight: recalled(table, sight.numpy(), turn))
    patch.setattr(see, "_another_source", lambda images, ways: see.as_sight(images))


def hear_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    heard, kind = hear.sounds(context, exam_seeds(context.episodes(hear.EPISODES), context.seed, "hear"))
    table = known((heard.numpy(), kind))
    patch.setattr(hear, "_named", lambda agent, head, heard: recalled(table, heard.numpy(), turn))


def bind_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    seeds = exam_seeds(context.episodes(bind.EPISODES), context.seed, "bind")
    senses, truth = bind.scenes(context, seeds, bind.TICKS)
    boxes = truth["boxes"][np.arange(len(seeds)), truth["target"]]
    table = known((senses["sight"].numpy(), boxes))
    patch.setattr(bind, "_chosen", lambda agent, head, senses, found: recalled(table, senses["sight"].numpy(), turn))


class Told(Scene):
    """A scene output with the given instances and depth."""

    def __init__(self, mask: np.ndarray, depth: np.ndarray) -> None:
        self.told = mask, depth

    def instances(self) -> list[Instances]:
        masks = [np.stack([one == k for k in range(1, locate.THINGS + 1) if (one == k).any()]) for one in self.told[0]]
        return [Instances(one, locate.boxes_of(one), np.ones(len(one), np.float32)) for one in masks]

    def mode(self) -> torch.Tensor:
        return torch.from_numpy(self.told[1])[:, None]


def locate_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    n = context.episodes(locate.EPISODES)
    senses, truth = locate.rooms(context, "room", exam_seeds(n + n // 2, context.seed, "locate"), "exam")
    places = np.arange(len(senses["sight"]))
    table = known((senses["sight"], places))

    def tell(agent: Any, batch: Mapping[str, Any], heads: Any) -> dict[str, Scene]:
        row = recalled(table, batch["senses"]["sight"][:, 0].numpy(), turn)
        return {"scene": Told(truth["mask"][row], truth["depth"][row])}

    patch.setattr("devmind.agent.agent.Agent.__call__", tell)


class Knowing:
    """A policy that knows the truth, and gives another row's answers where answers are shuffled."""

    counts: Mapping[str, Mapping[str, int]] = {}

    def __init__(self, rule: Callable[[Any, np.ndarray], Mapping[str, np.ndarray]], turn: Turn) -> None:
        self.rule, self.turn = rule, turn

    def __call__(self, truth: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        return {name: value[self.turn(len(value))] for name, value in self.rule(truth, first).items()}


def acting(rule: Callable[[], Callable[[Any, np.ndarray], Mapping[str, np.ndarray]]], *modules: Any) -> Put:
    """Trials in which a rule that knows the truth replaces the agent's arcs and trunk."""

    def put(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
        play = Trial.play

        def with_truth(self: Trial, make: Any, n: int | None = None, with_truth: bool = False) -> Any:
            return play(self, make, n, with_truth or isinstance(make(), Knowing))

        patch.setattr(Trial, "play", with_truth)
        for module in modules:
            for name in ("arcs", "by_trunk"):
                patch.setattr(module, name, lambda *args, **more: Knowing(rule(), turn))

    return put


def turn_to(truth: Any, first: np.ndarray) -> dict[str, np.ndarray]:
    return {"look": gaze.target_turn(truth).astype(np.float32)}


def withdraw(truth: Any, first: np.ndarray) -> dict[str, np.ndarray]:
    now = (truth["event"] != 0) & (truth["tick"] - truth["event_tick"] >= 0)
    return {"move": -now.astype(np.float32)[:, None]}


def foresee_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    def tell(agent: Any, names: Any, seen: Any) -> dict[str, Any]:
        outputs = {}
        for name in names:
            tokens = seen.encoded[FORESEEN[name]].tokens
            change = agent.head(name).changes(tokens, tokens.roll(-1, 1))[turn(len(tokens))]
            outputs[name] = SimpleNamespace(mode=lambda change=change: change)
        return outputs

    patch.setattr("devmind.agent.agent.Agent.run_heads", tell)


def balance_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    def push(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        place, speed, angle, turning = senses["body"].T
        return {"push": ((angle + 0.4 * turning + 0.05 * place + 0.1 * speed) > 0).astype(np.int64)[turn(len(angle))]}

    push.counts = {}  # type: ignore[attr-defined]
    patch.setattr(balance, "Actor", lambda *args, **more: push)


class Remembering:
    """Chooses by everything sensed since the episode began; without short-term memory, by the last Moment alone."""

    longest = 0
    """Moments of the longest episode that one of them has remembered."""

    def __init__(self, rule: Callable[[np.ndarray], np.ndarray], short_term: bool, turn: Turn) -> None:
        self.rule, self.short_term, self.turn = rule, short_term, turn
        self.seen: list[np.ndarray] = []

    def __call__(self, senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        if "signal" not in senses:
            return self.in_a_hallway(senses, first)
        self.seen = [*([] if first.all() or not self.short_term else self.seen), senses["signal"]]
        Remembering.longest = max(Remembering.longest, len(self.seen))
        return {"choose": self.rule(np.stack(self.seen))[self.turn(len(first))]}

    def in_a_hallway(self, senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        """Play rooms of its own with the same seeds, in which a teacher is asked."""
        if first.all():
            unseen = {len(hallways.exam_rooms(0, size)): size for size in hallways.UNSEEN_SIZES}
            size = {**unseen, **{rooms: size for size, rooms in hallways.ROOMS.items()}}[len(first)]
            self.rooms = [hallways.Hallway(size) for _ in first]
            self.worlds = [
                room.begin(int(seed)) for room, seed in zip(self.rooms, hallways.exam_rooms(0, size), strict=True)
            ]
            self.over = np.zeros(len(first), bool)
        choice = np.array([0 if over else room.teach() for room, over in zip(self.rooms, self.over, strict=True)])
        choice = choice[self.turn(len(choice))]
        for row in np.flatnonzero(~self.over):
            world: Any = self.rooms[row].world
            *_, ended, cut, _ = world.step({"choose": choice[row]})
            self.over[row] = ended or cut
        return {"choose": choice}


def remembering_by(rule: Callable[[np.ndarray], np.ndarray]) -> Put:
    def put(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
        patch.setattr(short_term, "agent_policy", lambda agent, short_term=True: Remembering(rule, short_term, turn))

    return put


def the_sign(seen: np.ndarray) -> np.ndarray:
    """Of signals [T, N, 3], the sign of the first, or of a distractor where that is all there is."""
    return (seen[0][:, -1] > 0).astype(np.int64)


def the_turn(seen: np.ndarray) -> np.ndarray:
    return np.where(seen[-1][:, 0] > 0, np.where(seen[0][:, -1] > 0, 1, 3), 0)


def three_before(seen: np.ndarray) -> np.ndarray:
    return np.asarray(seen[max(0, len(seen) - 4)].argmax(1))


def recall_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    """Says the name that is heard or stands in the first recalled entry, else always the same.

    Points at that entry or, with answers shuffled among rows, at one with another row's word. Doubles: `tell_doubles`.
    """

    number = {name: at for at, name in enumerate(NAMES)}

    class Saying:
        def __init__(self, agent: Any, n: int, **more: Any) -> None:
            self.actor, self.state = recall.REAL(agent, n, **more), None  # type: ignore[attr-defined]

        def encode(self, batch: Any) -> Any:
            return self.actor.encode(batch)

        def step(self, percepts: Any, found: list[list[Any]] | None) -> Any:
            batch = percepts.batch
            n = len(batch["first"])
            said, points = np.zeros(n, np.int64), torch.zeros(n, 5)
            points[:, -1] = 1.0
            if found:
                said = np.array([number.get(str(row[0][0]["words"]), 0) for row in found])
                points[:, 0] = torch.from_numpy(2.0 * (turn(n) == np.arange(n)))
            if "words" in batch["present"]:
                spelt = batch["senses"]["words"][:, 0].numpy()
                aloud = batch["present"]["words"][:, 0].numpy()
                table = {recalling_bytes(name): at for name, at in number.items()}
                said = np.where(aloud, [table.get(one.tobytes(), 0) for one in spelt], said)
            answer = torch.from_numpy(said[turn(n)])
            heads = {recall.HEAD: SimpleNamespace(mode=lambda: answer), recall.COPIED: Categorical(points)}
            return SimpleNamespace(outputs=heads)

    patch.setattr(recall, "REAL", recall.Actor, raising=False)
    patch.setattr(recall, "Actor", Saying)
    patch.setattr(recall, "recalled_tokens", lambda agent, found: found)
    tell_doubles(patch, turn)


def seen_as(of: Doubles) -> np.ndarray:
    """Which of the twelve things of a life look alike: equal numbers, [N, 12]."""
    rows = np.stack([of.shape, of.colour, of.texture, of.size_m], -1)[:, : recall.THINGS]
    return np.unique(rows.reshape(-1, 4), axis=0, return_inverse=True)[1].reshape(rows.shape[:2])


def heard_as(of: Doubles) -> np.ndarray:
    """Which of the twelve things of a life sound alike: equal numbers, [N, 12]."""
    rows = np.stack([of.shape, of.texture, of.tone_m], -1)[:, : recall.THINGS]
    return np.unique(rows.reshape(-1, 3), axis=0, return_inverse=True)[1].reshape(rows.shape[:2])


def tell_doubles(patch: pytest.MonkeyPatch, turn: Turn) -> None:
    """In lives of doubles goes by what each sense tells exactly, and of two things that are alike takes one at random;
    other lives are played as they are.
    """
    real, rng = recall.play, np.random.default_rng(0)

    def play(agent: Any, of: Any, short: bool, long: bool, senses: Any = recall.BOTH, words: Any = None,
             strangers: bool = False) -> recall.Answers:  # fmt: skip
        if not isinstance(of, Doubles):
            return real(agent, of, short, long, senses, words, strangers)
        fits = np.ones((len(of.seed), recall.ASKED, recall.THINGS), bool)
        for sense in senses:
            alike = seen_as(of) if sense == "sight" else heard_as(of)
            fits &= alike[:, : recall.ASKED, None] == alike[:, None]
        chosen = np.where(fits, rng.random(fits.shape), -1.0).argmax(-1)
        said = np.take_along_axis(words, chosen, 1)[turn(len(words))]
        return recall.Answers(said, said, np.full_like(said, ""))

    patch.setattr(recall, "play", play)


def match_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    """Knows each episode whose sample it was shown; without memory it always answers the same. Floors are real."""
    n, table, real, seen = context.episodes(match.EPISODES), {}, match.choose_matches, list[Any]()
    for kind, sense in match.KINDS.items():
        of = match.things(exam_seeds(n, context.seed, match.NAME, kind), match.HELD_OUT)
        table |= known((match.show_episodes(of, sense, match.PAUSE), match.answers(of)))

    def tell(agent: Any, sense: str, met: np.ndarray, short_term: bool = True) -> np.ndarray:
        seen.append(agent)
        if agent is not seen[0]:
            return real(agent, sense, met, short_term)
        return recalled(table, met, turn) if short_term else np.ones(len(met), np.int64)

    patch.setattr(match, "choose_matches", tell)


def fetch_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    """Knows where the thing is, by arc and by trunk; without memory, or without the word, the hand rests."""

    class Told(fetch.ByTruth):
        counts: Mapping[str, Mapping[str, int]] = {}

        def __call__(self, truth: Any, first: np.ndarray) -> Any:
            return {"reach": super().__call__(truth, first)["reach"][turn(len(first))]}

    def tell(agent: Any, short_term: bool = True, without: Any = (), beliefs: bool = True) -> Any:
        return Told() if (short_term or beliefs) and not without else lambda senses, first: {}

    patch.setattr(fetch, "by_trunk", tell)
    patch.setattr(fetch, "by_arc", tell)


def recalling_bytes(name: str) -> bytes:
    from devmind.agent.batch import encode_words

    return encode_words(name).tobytes()


BELIEVED = object()
"""What stands for the beliefs that the agent as it is has."""


def permanence_all(patch: pytest.MonkeyPatch, context: Context, turn: Turn) -> None:
    hide(patch, turn)


def hide(
    patch: pytest.MonkeyPatch, turn: Turn, right: tuple[int, ...] = (hiding.BEFORE_LOOKING, hiding.AFTER_LOOKING)
) -> None:
    """Rooms that nobody renders: the plan has the truth, and an agent with beliefs knows it at `right` questions."""

    def output(place: np.ndarray, wrong: np.ndarray, question: int, believes: bool) -> Any:
        said = np.where(believes and question in right, place, wrong)[turn(len(place))]
        told = SimpleNamespace(mode=lambda: torch.from_numpy(said))
        return SimpleNamespace(outputs={"place": told}, recalled=BELIEVED, beliefs=None)

    def ticks(agent: Any, context: Context, kind: str, seeds: np.ndarray, actor: Any = None) -> Iterator[Any]:
        plan, n = hiding.plan(seeds, kind), np.arange(len(seeds))
        for tick in range(hidden.last_tick(plan) + 1):
            question = int(plan.asked(np.full(len(seeds), tick))[0])
            place = plan.where(np.full(len(seeds), tick))[n, plan.target]
            truth = {"question": np.full(len(seeds), question), "place": place}
            # Where a thing moved unseen, the best answer is another place than that of the last sight.
            percepts = (place, plan.last_seen if kind in ("moved", "swapped") else (place + 1) % 3, question)
            yield SimpleNamespace(truth=truth, percepts=percepts, output=output(*percepts, believes=True))

    class Asked:
        def __init__(self, *args: Any, **more: Any) -> None:
            pass

        def step(self, percepts: Any, told: Any) -> Any:
            return output(*percepts, believes=told is BELIEVED)

    patch.setattr(permanence, "ticks", ticks)
    patch.setattr(permanence, "Actor", Asked)
    patch.setattr(permanence, "_by_rule", lambda tick: tick.percepts[0])


def players() -> Mapping[str, Put]:
    """The players by skill."""
    return {
        "see": see_all,
        "hear": hear_all,
        "bind": bind_all,
        "locate": locate_all,
        "orient": acting(lambda: turn_to, orient),
        "track": acting(lambda: turn_to, track),
        "reach": acting(hand_rules.ReachByTruth, reach),
        "startle": acting(lambda: withdraw, startle),
        "foresee": foresee_all,
        "balance": balance_all,
        "memory_len": remembering_by(the_sign),
        "maze": remembering_by(the_turn),
        "repeat_previous": remembering_by(three_before),
        "recall": recall_all,
        "permanence": permanence_all,
        "match": match_all,
        "fetch": fetch_all,
    }
