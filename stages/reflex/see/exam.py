"""The exam of see: unseen handwritten digits, beside ridge on pixels, random features and untaught tokens, and kernel
ridge on pixels; and what a thousand small readers on the agent's eye think, also of what is no digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.algorithms.calibration import calibration_error
from devmind.algorithms.kernel_ridge import fit_kernel_classifier
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure, Parts, elsewhere, in_parts
from devmind.curriculum.gate import Gate, Threshold, elsewhere_thresholds
from devmind.curriculum.stage import Context
from devmind.moment import SIGHT_SIZE
from devmind.seeding import numpy_rng, torch_generator
from devmind.sessions.written import SKLEARN, Pictures, home_pictures, unmet_pictures
from stages.reflex.exhibits import picture_exhibits
from stages.reflex.hand_rules import nearest_labels
from stages.reflex.see.lesson import SHIFTS, as_sight
from stages.reflex.see.readers import READERS, Opinion, Readers, eye_tokens, mixed_halves, told_apart
from stages.reflex.untaught import FLOOR, UntrainedEncoders

KERNELS = 4000
"""Pictures on which kernel ridge is fitted, at most: it takes memory for the square of their number."""
SMALL = 16
"""Side of the pictures that rules compare with another source's."""


ELSEWHERE_PICTURES = 2000
GATE = Gate(
    [
        Threshold("see", 0.95),
        Threshold("see/given", 0.975, when_absent="skip"),
        Threshold("see/see_trunk", 0.93),
        Threshold("see/shifted", 0.85, goal=True),
        *elsewhere_thresholds("see", 0.88),
    ]
)
"""More is asked of `see/given`: of larger sets, like MNIST's, that the lessons showed."""


def exam_pictures(agent: Agent, context: Context) -> tuple[Pictures, Pictures]:
    """(pictures for fitting the floors, pictures to examine) of the set that the agent was taught: no picture that
    lessons showed is examined."""
    home, _ = home_pictures(context.data, agent.config.trained_on)
    return unmet_pictures(home, agent.config.trained_on, context.seed)


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Share of unseen digits named correctly; floors: ridge on pixels, random features and untaught tokens, kernel
    ridge and nearest neighbours."""
    taught, unseen = exam_pictures(agent, context)
    n = min(context.episodes(len(unseen.labels)), len(unseen.labels))
    # Spread over the set, whose rows may be ordered by writer.
    chosen_rows = np.linspace(0, len(unseen.labels) - 1, n).astype(int)
    unseen = unseen.take(chosen_rows)
    sight = as_sight(unseen.images)
    chosen = _named(agent, "see", sight)
    right = chosen == unseen.labels
    measure = Measure(
        "see",
        "digits named correctly",
        right.astype(np.float64),
        chance=0.1,
        rate=True,
        reference="a small convolutional net: 0.99 on MNIST digits (measured, 8,000 examples)",
        note=f"{unseen.source}; {len(unseen.labels)} held out of the lessons",
        episodes=identities({"picture": unseen.images}),
    )
    by_trunk = measure.of("see/see_trunk", _named(agent, "see_trunk", sight) == unseen.labels)
    yield [measure, by_trunk]
    floors = _floors(agent, taught, unseen)
    rows = {"ridge on this agent's sight tokens": _linear_row(agent, taught, unseen)}
    wrong = np.flatnonzero(~right)[:8]
    captions = [f"a {unseen.labels[i]}, taken for a {chosen[i]}" for i in wrong]
    exhibits = picture_exhibits("failure", sight[wrong].numpy(), captions)
    readers = Readers(agent, taught, context.scaled(READERS), context.seed)
    said = readers.ask(unseen)
    rows |= {
        "small readers on these tokens, each by itself": float(said.shares.mean()),
        "the same readers together": float((said.probability.argmax(1) == unseen.labels).mean()),
    }
    measure = replace(measure, floors=floors, rows=rows, exhibits=exhibits)
    yield [
        measure,
        *([measure.of("see/given", measure.values)] if unseen.source != SKLEARN else []),
        replace(by_trunk, floors=floors),
        _unknown(agent, readers, said, taught, unseen),
        *_shifted(agent, taught, unseen),
        *_elsewhere(agent, context, taught),
    ]


def _shifted(agent: Agent, taught: Pictures, unseen: Pictures) -> list[Measure]:
    """The same digits as another source may show them: in all ways of SHIFTS at once, and in each."""
    shown = {ways: _another_source(unseen.images, ways) for ways in (SHIFTS, *((one,) for one in SHIFTS))}
    right = {ways: _named(agent, "see", sight) == unseen.labels for ways, sight in shown.items()}
    measure = Measure(
        "see/shifted",
        "digits named correctly",
        right[SHIFTS].astype(np.float64),
        chance=0.1,
        rate=True,
        rows={f"{one} alone": float(right[one,].mean()) for one in SHIFTS}
        | {"by the trunk": float((_named(agent, "see_trunk", shown[SHIFTS]) == unseen.labels).mean())},
        floors={name: float(named.mean()) for name, named in _rules(taught, shown[SHIFTS], unseen.labels).items()},
        note=f"{unseen.source}, each with another margin, pen, blur and light; choose by this, never by elsewhere",
        episodes=identities({"picture": unseen.images}),
    )
    return [measure]


def _elsewhere(agent: Agent, context: Context, taught: Pictures) -> list[Measure]:
    """Digits of a source that no lesson saw, if such are given."""
    _, given = home_pictures(context.data, agent.config.trained_on)
    if given is None:
        return []
    n = min(context.scaled(ELSEWHERE_PICTURES), len(given.labels))
    given = given.take(np.linspace(0, len(given.labels) - 1, n).astype(int))
    sight = as_sight(given.images)
    measure = Measure(
        "see/elsewhere",
        "digits named correctly",
        (_named(agent, "see", sight) == given.labels).astype(np.float64),
        chance=0.1,
        rate=True,
        rows={"by the trunk": float((_named(agent, "see_trunk", sight) == given.labels).mean())},
        note=f"{given.source}; lessons showed {taught.source}",
        episodes=identities({"picture": given.images}),
    )
    return elsewhere(measure, _rules(taught, sight, given.labels))


def _another_source(images: np.ndarray, ways: Sequence[str]) -> Tensor:
    """Pictures of an exam, changed in these ways of SHIFTS; always alike."""
    return as_sight(images, torch_generator("exam", "see/shifted", *ways), ways)


def _rules(taught: Pictures, sight: Tensor, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Whether rules fitted on lessons' pictures name those in `sight` [N, ...] rightly, 0. or 1. [N] each: kernel ridge
    on pixels, and on the ink, cropped; the latter also with three changed copies of each picture."""
    some = taught.take(np.linspace(0, len(taught.labels) - 1, min(KERNELS // 4, len(taught.labels))).astype(int))
    plain = as_sight(some.images)
    changed = [as_sight(some.images, torch_generator("lesson", "see/rules", copy), SHIFTS) for copy in range(3)]
    fits: dict[str, tuple[Callable[[Tensor], np.ndarray], list[Tensor]]] = {
        "kernel ridge on pixels": (_pixels, [plain]),
        "kernel ridge on the ink": (_ink, [plain]),
        "kernel ridge on the ink, also changed": (_ink, [plain, *changed]),
    }
    right = {}
    for name, (rows, shown) in fits.items():
        x, known = np.concatenate([rows(one) for one in shown]), np.tile(some.labels, len(shown))
        named = fit_kernel_classifier(x, known, width=0.25).predict(rows(sight))
        right[name] = (named == labels).astype(np.float64)
    return right


def _pixels(sight: Tensor) -> np.ndarray:
    """Sight [N, 64, 64, 3] at 16 x 16, each of length 1, [N, 256]."""
    small = F.avg_pool2d(sight[:, None, :, :, 0].float(), SIGHT_SIZE // SMALL).flatten(1)
    return F.normalize(small, dim=1).numpy()


def _ink(sight: Tensor) -> np.ndarray:
    """The same of the square around the ink: what is brighter than a third of the way from the ground to the peak."""
    planes = sight[..., 0].float()
    ground = planes.flatten(1).median(1).values[:, None, None]
    planes = (planes - ground).clamp(min=0) / (planes - ground).amax((1, 2), keepdim=True).clamp(min=1)
    ends = []
    for along in (1, 2):  # columns, then rows: x and y of `affine_grid`
        there = (planes > 1 / 3).any(along).float()
        ends.append(torch.stack((there.argmax(1), SIGHT_SIZE - there.flip(1).argmax(1)), -1))
    corners = torch.stack(ends, 1) / SIGHT_SIZE * 2 - 1  # [N, 2, 2]: x and y, from and to
    half = (corners[..., 1] - corners[..., 0]).amax(1) / 2
    theta = torch.cat((half[:, None, None] * torch.eye(2), corners.mean(-1, keepdim=True)), -1)
    grid = F.affine_grid(theta, [len(planes), 1, SIGHT_SIZE, SIGHT_SIZE], align_corners=False)
    cropped = F.grid_sample(planes[:, None], grid, align_corners=False)
    return _pixels(cropped.movedim(1, -1))


def _unknown(agent: Agent, readers: Readers, said: Opinion, taught: Pictures, unseen: Pictures) -> Measure:
    """Whether the readers disagree more about what is no digit; beside the head's own doubt, and the pixels' distance
    to the nearest digit."""
    strangers = mixed_halves(unseen)
    own, of_strangers = (_probabilities(agent, "see", as_sight(part.images)) for part in (unseen, strangers))
    far = [_distances(part, taught) for part in (unseen, strangers)]
    errors = [calibration_error(part.max(1), part.argmax(1) == unseen.labels) for part in (said.probability, own)]
    return Measure(
        "see/unknown",
        "digits about which the readers agree more",
        told_apart(said.disagreement, readers.ask(strangers).disagreement),
        chance=0.5,
        floors={
            "the head's own doubt": float(told_apart(-own.max(1), -of_strangers.max(1)).mean()),
            "distance to the nearest digit on pixels": float(told_apart(*far).mean()),
        },
        note=f"{len(readers.weights)} small readers of the eye's tokens; strangers are halves of two digits; the "
        f"calibration error on digits: readers {errors[0]:.3f}, head {errors[1]:.3f}",
        episodes=identities({"picture": unseen.images}),
    )


def _distances(shown: Pictures, taught: Pictures) -> np.ndarray:
    """From each picture to the nearest taught one, by pixels, [N]."""
    some = taught.take(np.linspace(0, len(taught.labels) - 1, min(KERNELS, len(taught.labels))).astype(int))
    x, y = (torch.from_numpy(part.images.reshape(len(part.images), -1) / 255.0) for part in (some, shown))
    return torch.cdist(y, x).amin(1).numpy()


def _named(agent: Agent, head: str, sight: Tensor) -> np.ndarray:
    """The digit that `head` takes each picture [N, ...] for, int64 [N]."""
    return _probabilities(agent, head, sight).argmax(1)


def _probabilities(agent: Agent, head: str, sight: Tensor) -> np.ndarray:
    """Of each digit, float32 [N, 10]."""
    outputs = [agent(one_tick({"sight": part}), [head])[head] for part in sight.split(256)]
    return torch.cat([output.probabilities()[:, 0] for output in outputs]).float().cpu().numpy()


def _floors(agent: Agent, taught: Pictures, unseen: Pictures) -> dict[str, float]:
    x, y = (part.images.reshape(len(part.images), -1) / 255.0 for part in (taught, unseen))
    rng = numpy_rng("see", "random features")
    weights = rng.standard_normal((x.shape[1], 1000)) / np.sqrt(x.shape[1]) * 3
    lifted = [np.tanh((part - x.mean(0)) @ weights) for part in (x, y)]
    untaught = UntrainedEncoders(agent)
    blank = [untaught.tokens("sight", as_sight(part.images)).reshape(len(part.labels), -1) for part in (taught, unseen)]
    return {
        FLOOR: _accuracy(blank[0], taught.labels, blank[1], unseen.labels),
        "ridge on pixels": _accuracy(x, taught.labels, y, unseen.labels),
        "ridge on random features": _accuracy(lifted[0], taught.labels, lifted[1], unseen.labels),
        "kernel ridge on pixels": _by_kernels(taught, unseen),
        "nearest neighbours on pixels": float((nearest_labels(x, taught.labels, y) == unseen.labels).mean()),
    }


def _by_kernels(taught: Pictures, unseen: Pictures) -> float:
    """Of taught pictures spread over the set, KERNELS at most; each at length 1."""
    some = taught.take(np.linspace(0, len(taught.labels) - 1, min(KERNELS, len(taught.labels))).astype(int))
    x, y = (part.images.reshape(len(part.images), -1) / 255.0 for part in (some, unseen))
    x, y = (part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-6) for part in (x, y))
    return float((fit_kernel_classifier(x, some.labels, width=0.25).predict(y) == unseen.labels).mean())


def _linear_row(agent: Agent, taught: Pictures, unseen: Pictures) -> float:
    """A linear head fitted in closed form on the frozen tokens of the sight encoder."""
    some = taught.take(np.arange(min(3000, len(taught.labels))))
    x, y = (eye_tokens(agent, part).numpy() for part in (some, unseen))
    return _accuracy(x, taught.labels[: len(x)], y, unseen.labels)


def _accuracy(x: np.ndarray, labels: np.ndarray, y: np.ndarray, targets: np.ndarray) -> float:
    return float((fit_ridge_classifier(x, labels, penalty=100.0).predict(y) == targets).mean())
