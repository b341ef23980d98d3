"""The learner of the long night: what a specialist's stages learned apart is taught to one mind (`agent.one_mind`).

Complementary learning systems (McClelland, McNaughton and O'Reilly 1995): stages learn fast, in parts of their own; a
night distils them by batches of all lessons, interleaved. Targets are the specialist's features of each token (Romero
et al. 2015, "FitNets", arXiv 1412.6550) and its heads' answers (Hinton et al. 2015). A head that makes plans or sounds
gives no numbers that could be compared; it learns by the loss of its own lesson.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED, to_device
from devmind.agent.device import place
from devmind.agent.one_mind import form_of, layer_prefixes
from devmind.agent.output import Categorical, Output, masked_mean
from devmind.agent.taps import Perceived
from devmind.curriculum.stage import Batches, Learner, Scalars
from devmind.errors import ConfigError
from devmind.learners.distil import answer_tensors, distance
from devmind.learners.gradient import SHARED
from devmind.learners.joint import JointLearner, JointLoss
from devmind.learners.muon import MuonLearner

MODALITIES = {
    "speech": ("listen", "codes"),
    "boards": ("position", "puzzle", "board"),
    "pages": ("text",),
    "sight": ("sight",),
}
"""A batch is of the first of these that it has a sense of, else of OTHERS: bodies, words, batches of another form."""
OTHERS = "others"
PACE = 0.02
"""Of the running size of each term, by which it is divided."""
LEAST = 1e-3
"""The least size of a term: what is as small is learned."""
FEATURES, OWN = "features", "own loss"
ORDINARY = frozenset(("senses", "present", "first"))
"""The entries of a Batch that an agent can be run on; other batches are known to their own lesson alone."""


@dataclass(frozen=True)
class Taught:
    """One lesson of a stage, as the night goes over it.

    Attributes:
        learner: knows the lesson's own loss of the one mind; None: it has none that could be asked.
        heads: those whose answers are distilled, each by batches that have what it reads; none if batches are known
            to the lesson alone. reached: the heads that its own loss teaches.
    """

    stage: str
    name: str
    batches: Batches
    learner: Learner | None
    heads: tuple[str, ...] = ()
    modality: str = OTHERS
    reached: frozenset[str] = frozenset()


def modality_of(batch: Any) -> str:
    """The modality of a batch."""
    senses = batch["senses"] if is_ordinary(batch) else {}
    return next((name for name, those in MODALITIES.items() if any(sense in senses for sense in those)), OTHERS)


def is_ordinary(batch: Any) -> bool:
    """Whether an agent can be run on it."""
    return isinstance(batch, Mapping) and set(batch) >= ORDINARY


def askable(agent: Agent, specialist: Agent, stage: str) -> tuple[str, ...]:
    """The heads of `stage` that learn, and can be asked about an ordinary batch."""
    still = as_it_was(agent, specialist)
    names = [entry["name"] for entry in agent.config.heads if entry["stage"] == stage and entry["name"] in agent.heads]
    return tuple(name for name in names if name not in still and not agent.head(name).takes_targets)


def readable(agent: Agent, names: Sequence[str], batch: Any) -> list[str]:
    """Those of the heads that read senses which the batch has."""
    senses = {*batch["senses"], *([RECALLED] if "recalled" in batch else [])}
    senses |= {name for name, encoder in agent.in_order.items() if encoder.of in senses}
    return [name for name in names if agent.tap_of(name).can_read(senses)]


def comparable(agent: Agent, head: str, output: Output) -> bool:
    """Whether a head's answer is made of numbers that another head of its name can be taught."""
    return isinstance(output, Categorical) or not agent.head(head).generates


class ConsolidationLearner(MuonLearner, JointLearner):
    """Teaches one mind all lessons at once: a step has one batch of each modality, in turn of its lessons.

    Encoders stay as they are, so keys and names stay valid, and a batch is encoded once for both agents.

    Args:
        agent: the one mind; specialist: as it ended its last stage; it does not change.
        taught: the lessons; a batch is `{modality: {"lesson": index, "batch": the lesson's}}`.
        twin: the trunk's layers stay the identity, and all else is taught as long.

    Attributes:
        sizes: the running size of each term, by lesson and term.
        compared: sums over the steps, with their number, of what each step reports.
        reached: the heads that a step has taught.
    """

    def __init__(
        self, agent: Agent, specialist: Agent, taught: Sequence[Taught], *, seed: int, learning_rate: float, twin: bool
    ) -> None:
        still = (*(f"heads.{name}." for name in as_it_was(agent, specialist)), *(layer_prefixes(agent) if twin else ()))
        learns = [name for name, _ in agent.named_parameters() if name.startswith((*SHARED, "heads."))]
        trains = [name for name in learns if not name.startswith(still)]
        modalities = sorted({one.modality for one in taught})
        loss = JointLoss(dict.fromkeys(modalities, self._loss), dict.fromkeys(modalities, 1.0))
        super().__init__(agent, loss, seed=seed, learning_rate=learning_rate, trains=trains)
        self.of_stage = lambda name: 1.0
        self.specialist, self.taught = specialist.requires_grad_(False).eval(), list(taught)
        self.sizes, self.compared, self.reached = dict[str, float](), dict[str, list[float]](), set[str]()

    def begin(self, step: int) -> None:
        """Prepare for training, and move the specialist to the agent's device."""
        super().begin(step)
        place(self.specialist, self.agent.device)

    def update(self, batch: Any, step: int) -> Scalars:
        """One step; what it reports is summed up."""
        scalars = super().update(batch, step)
        for name, value in scalars.items():
            if name.count("/") < 2:
                total, count = self.compared.get(name, [0.0, 0])
                self.compared[name] = [total + float(value), count + 1]
        return scalars

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, the sizes of terms, the sums and the heads reached."""
        own = {"sizes": dict(self.sizes), "compared": dict(self.compared), "reached": sorted(self.reached)}
        return super().state_dict() | own

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        super().load_state_dict(state)
        self.sizes, self.compared = dict(state["sizes"]), {name: list(x) for name, x in state["compared"].items()}
        self.reached = set(state["reached"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """Raise ConfigError: a long night is the last lesson of a childhood."""
        raise ConfigError("A long night goes over all lessons itself, and no lesson rehearses it.")

    def means(self) -> dict[str, float]:
        """The mean over all steps of each loss, gradient norm and cosine."""
        return {name: total / count for name, (total, count) in sorted(self.compared.items())}

    def _loss(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Each kind of term has the weight 1: features, the mean over heads, and the lesson's own loss."""
        lesson = self.taught[batch["lesson"]]
        found = self.terms(agent, lesson, batch["batch"])
        heads = [name for name in found if name in lesson.heads]
        self.reached |= {*heads, *(lesson.reached if OWN in found else ())}
        loss = torch.zeros((), device=agent.device)
        for name, term in found.items():
            share = 1 / len(heads) if name in heads else 1.0
            loss = loss + share * term / self._size(f"{lesson.stage}/{lesson.name}/{name}", term)
        return loss, {name: term.detach() for name, term in found.items() if name in (FEATURES, OWN)}

    def _size(self, name: str, term: Tensor) -> float:
        """The running size of a term, to which it is added."""
        now = abs(float(term.detach()))
        self.sizes[name] = (1 - PACE) * self.sizes.get(name, now) + PACE * now
        return max(self.sizes[name], LEAST)

    def terms(self, agent: Agent, lesson: Taught, batch: Any) -> dict[str, Tensor]:
        """The terms of a lesson's batch, scalars with a gradient: errors of features and answers, and its own loss."""
        found = dict[str, Tensor]()
        if is_ordinary(batch):
            found |= distances(agent, self.specialist, lesson.heads, batch)
        if lesson.learner is not None:
            found[OWN] = lesson.learner.rehearse(batch)[0]
        return found

    @torch.no_grad()
    def errors(self, batches: Sequence[tuple[int, Any]]) -> dict[str, float]:
        """The mean of each term over batches, (index of the lesson, batch), as "STAGE/LESSON/TERM"."""
        sums = dict[str, list[float]]()
        for number, batch in batches:
            lesson = replace(self.taught[number], learner=None)
            for name, term in self.terms(self.agent, lesson, batch).items():
                sums.setdefault(f"{lesson.stage}/{lesson.name}/{name}", []).append(float(term))
        return {name: sum(values) / len(values) for name, values in sums.items()}


def as_it_was(agent: Agent, specialist: Agent) -> list[str]:
    """The heads that read no trunk and are the specialist's own: reflexes, and what feeds beliefs."""
    pairs = zip(agent.config.heads, specialist.config.heads, strict=True)
    same = [new["name"] for new, old in pairs if form_of(new) == form_of(old)]
    return [name for name in same if name in agent.heads and not agent.tap_of(name).on_trunk]


def think_both(agent: Agent, specialist: Agent, heads: Sequence[str], batch: Any) -> tuple[Perceived, Perceived]:
    """What one mind and the specialist make of a batch that is encoded once."""
    batch = to_device(batch, agent.device)
    with torch.no_grad():
        tapped = {sense for name in heads for sense in specialist.tap_of(name).senses}
        known = [sense for sense in specialist.in_order if sense in tapped or specialist.encoder(sense).enters]
        seen = specialist.encode_batch(batch, known)
        recalled = specialist.encode_recalled(batch["recalled"]) if "recalled" in batch else None
        theirs = specialist.think(seen, batch["first"], recalled=recalled)
    own = agent.encode_recalled(batch["recalled"]) if "recalled" in batch else None
    return agent.think(seen, batch["first"], recalled=own), theirs


def distances(agent: Agent, specialist: Agent, heads: Sequence[str], batch: Any) -> dict[str, Tensor]:
    """The error of the trunk's features, by their variance, and the distance of the answer of each head that the batch
    has something for."""
    names = readable(agent, heads, batch)
    ours, theirs = think_both(agent, specialist, names, batch)
    valid = batch.get("valid")
    valid = (torch.ones_like(batch["first"]) if valid is None else valid).to(agent.device)
    found = dict[str, Tensor]()
    if theirs.readout is not None:
        found[FEATURES] = features_error(ours, theirs, valid)
    for name in names:
        tapped = specialist.tap_of(name).read(theirs)
        if tapped is None or agent.tap_of(name).read(ours) is None:
            continue
        answer, wanted = agent.run_head(name, ours), specialist.run_head(name, theirs)
        if comparable(agent, name, answer):
            here = valid & tapped.present.any(-1)
            found[name] = masked_mean(distance(answer, answer_tensors(wanted, here.shape)), here)
    return found


def features_error(ours: Perceived, theirs: Perceived, valid: Tensor) -> Tensor:
    """The squared error of the features of all tokens that are there, divided by their variance; valid bool [B, T]."""
    squares, spread = torch.zeros((), device=valid.device), torch.zeros((), device=valid.device)
    pairs = [(ours.of_senses[name], theirs.of_senses[name]) for name in theirs.of_senses if name in ours.of_senses]
    tokens = [(x.tokens, y.tokens, y.present & valid[..., None]) for x, y in pairs]
    assert ours.readout is not None
    assert theirs.readout is not None
    for mine, wanted, here in [*tokens, (ours.readout, theirs.readout, valid)]:
        if bool(here.any()):
            target = wanted[here]
            # A group of tokens counts as one, whether it is a page or a body's only token.
            squares = squares + (mine[here] - target).square().mean()
            spread = spread + (target - target.mean(0)).square().mean()
    return squares / spread.clamp_min(LEAST)
