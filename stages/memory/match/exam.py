"""The exam of the delayed match, by the trunk's head alone: longer pauses than taught, things with held-out looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.device import place
from devmind.curriculum.exam import Exam, Exhibit, Measure, Parts, held_out_rows, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.nursery.looks import TONES, never_met, tone_held_out
from stages.memory.match.heads import log_odds
from stages.memory.match.lesson import CHOICES, HEAD, KINDS, LONGEST_TAUGHT, answers, show_episodes, things
from stages.memory.recall.things import HELD_OUT, nearest_raw
from stages.memory.short_term import TOGETHER

NAME = "match"
EPISODES = 400
PAUSE = 10
"""Moments between a sample and the first choice."""
GATE = Gate([Threshold(f"{NAME}/{kind}", 0.9, beats_twin=True) for kind in KINDS])
OFF = "memory off"


def examine(agent: Agent, context: Context) -> Exam:
    """Share right after a pause of PAUSE Moments, for seen and heard things; memory off and floors in a full exam."""
    return Exam.joined(_exam(agent, context, kind) for kind in KINDS)


@in_parts
def _exam(agent: Agent, context: Context, kind: str) -> Parts:
    sense = KINDS[kind]
    n = context.episodes(EPISODES)
    of = things(exam_seeds(n, context.seed, NAME, kind), HELD_OUT)
    moments, targets = show_episodes(of, sense, PAUSE), answers(of)
    choices = choose_matches(agent, sense, moments)
    measure = Measure(
        f"{NAME}/{kind}",
        "right",
        (choices == targets).astype(np.float64),
        chance=1 / CHOICES,
        rate=True,
        note=f"{PAUSE} Moments with other things between, at most {LONGEST_TAUGHT} in lessons; combinations of shape, "
        "colour and texture that no lesson of names or matches showed",
        episodes=of.episodes(),
    )
    yield [measure]
    untaught = place(Agent(agent.config), context.device).eval()
    rows = {OFF: _right(choose_matches(agent, sense, moments, short_term=False), targets)}
    if sense == "sound" and never_met(agent.config.trained_on, TONES):
        rows |= held_out_rows((choices == targets).astype(np.float64), tone_held_out(of.size_m[:, 0]), "of tones")
    floors = {
        "untaught agent": _right(choose_matches(untaught, sense, moments), targets),
        "nearest raw input": _right(nearest(sense, moments), targets),
        "always the first": _right(np.zeros(n, np.int64), targets),
    }
    yield [replace(measure, floors=floors, rows=rows, exhibits=(_shown(choices == targets),))]


def choose_matches(agent: Agent, sense: str, moments: np.ndarray, short_term: bool = True) -> np.ndarray:
    """The one of the last CHOICES Moments of episodes [N, T, ...] that the head takes for the sample, int64 [N].

    Args:
        short_term: carry window and slots; without, every Moment stands alone.
    """
    choices = []
    for part in np.split(moments, range(TOGETHER, len(moments), TOGETHER)):
        actor = Actor(agent, len(part), effectors=(), heads=(HEAD,), short_term=short_term)
        odds = []
        for tick in range(part.shape[1]):
            output = actor.act(collate_tick({sense: part[:, tick]}, np.full(len(part), tick == 0)))
            odds.append(log_odds(output.outputs[HEAD]).cpu().numpy())
        choices.append(np.stack(odds[-CHOICES:], 1).argmax(1))
    return np.concatenate(choices)


def nearest(sense: str, moments: np.ndarray) -> np.ndarray:
    """The choice whose raw input is nearer to the sample's: mean colours of 8 x 8 fields, or log-mel levels."""
    return nearest_raw({sense: moments[:, :1]}, {sense: moments[:, -CHOICES:]})[:, 0]


def _right(choices: np.ndarray, targets: np.ndarray) -> float:
    return float((choices == targets).mean())


def _shown(right: np.ndarray) -> Exhibit:
    good = right.mean() >= 0.9
    return Exhibit(
        "example" if good else "failure", f"{int(right.sum())} of {len(right)} matched after {PAUSE} Moments"
    )
