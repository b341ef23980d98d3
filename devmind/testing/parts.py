"""The laws of a head and of a learner with its lesson."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devmind.testing.laws import ATOL, require

if TYPE_CHECKING:
    from torch import Tensor

    from devmind.agent.agent import Agent
    from devmind.agent.heads import Head, Tapped
    from devmind.curriculum.stage import Context, Learner, Lesson

MAP_SIDE = 64


def check_head(head: Head, target: Any = None) -> None:
    """Check the laws of a head on random features of its inlet's shape, [3, 2, ...].

    Args:
        target: a target of its loss, [3, 2, ...]; by default a sample of its own answer.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    import torch

    generator = torch.Generator().manual_seed(5)
    tapped = _random_features(head, generator)
    output = head.respond(tapped)
    for member in ("loss", "sample", "mode"):
        require(
            callable(getattr(output, member, None)),
            "a head gives an Output with loss, sample and mode",
            f"no '{member}'",
        )
    mode = output.mode()
    lead = tapped.tokens.shape[:2]
    require(mode.shape[:2] == lead, "an answer has the features' leading dimensions", f"{list(mode.shape)}")
    require(torch.equal(mode, head.respond(tapped).mode()), "a mode is the same each time", "two different modes")
    one, other = (output.sample(torch.Generator().manual_seed(9)) for _ in range(2))
    require(torch.equal(one, other), "all randomness of a sample comes from its generator", "two different samples")
    _check_absent(head, tapped, mode)
    _check_alone(head, tapped, mode)
    if target is None:
        _check_mask(output, one)
    _check_loss(head, output.loss(one if target is None else target, generator=torch.Generator().manual_seed(9)))
    _check_carry(head, tapped)
    _check_saved(head, tapped, mode)


def _random_features(head: Head, generator: Any) -> Tapped:
    import torch

    from devmind.agent.heads import Tapped

    inlet = head.inlet
    tokens = torch.randn(3, 2, inlet.n_tokens, inlet.width, generator=generator)
    present = torch.rand(3, 2, inlet.n_tokens, generator=generator) > 0.3
    present[..., 0] = True
    maps = {}
    for name, channels in inlet.map_channels.items():
        side = MAP_SIDE // int(name.removeprefix("stride"))
        maps[name] = torch.randn(3, 2, channels, side, side, generator=generator)
    return Tapped(tokens, present, maps)


def _check_absent(head: Head, tapped: Tapped, mode: Tensor) -> None:
    import torch

    from devmind.agent.heads import Tapped

    hidden = torch.where(tapped.present[..., None], tapped.tokens, tapped.tokens + 3.0)
    same = torch.equal(head.respond(Tapped(hidden, tapped.present, tapped.maps)).mode(), mode)
    require(same, "what is absent is not read", "another answer when only absent tokens changed")


def _check_alone(head: Head, tapped: Tapped, mode: Tensor) -> None:
    import torch

    from devmind.agent.heads import Tapped

    row = Tapped(tapped.tokens[1:2], tapped.present[1:2], {name: value[1:2] for name, value in tapped.maps.items()})
    alone = head.respond(row).mode()
    close = torch.allclose(alone.float(), mode[1:2].float(), atol=ATOL)
    require(close, "a row's answer does not depend on the other rows", "another answer when it stands alone")


def _check_carry(head: Head, tapped: Tapped) -> None:
    """Of a head with a `carry_spec`, over two ticks."""
    import torch

    from devmind.agent.rows import Leaf, empty, initial_carry

    if not head.carry_spec:
        return
    begun, now = initial_carry(head.carry_spec, 3), tapped.map(lambda value: value[:, 0])
    carry = head(now, begun)[1]
    found = {name: Leaf(tuple(value.shape[1:]), value.dtype) for name, value in carry.items()}
    law = "a carry has the names, shapes and dtypes of carry_spec"
    require(found == dict(head.carry_spec), law, f"{found} for {dict(head.carry_spec)}")
    same = not any(bool(value.any()) for value in begun.values())
    require(same, "a head does not change the carry that it gets", "other numbers in it")
    later = tapped.map(lambda value: value[:, 1])
    after = head(later, empty(carry, torch.tensor([False, True, False])))[1]
    alone = head(later.map(lambda value: value[1:2]), initial_carry(head.carry_spec, 1))[1]
    law = "a row whose episode begins carries what it would alone, whatever other rows carry"
    close = all(torch.allclose(value.double(), after[name][1:2].double(), atol=ATOL) for name, value in alone.items())
    require(close, law, "another carry")


def _check_saved(head: Head, tapped: Tapped, mode: Tensor) -> None:
    import torch
    from safetensors.torch import load, save

    from devmind.agent.saving import hash_tensors, to_save

    before, saved = hash_tensors(head.state_dict()), save(to_save(head.state_dict()))
    with torch.no_grad():
        for value in head.state_dict().values():
            value.zero_()
    head.load_state_dict(load(saved))
    law = "a head that was saved and loaded is as before (its state_dict holds all that its answer needs)"
    require(hash_tensors(head.state_dict()) == before, law, "other weights")
    require(torch.equal(head.respond(tapped).mode(), mode), law, "another answer")


def _check_mask(output: Any, target: Tensor) -> None:
    import torch

    mask = torch.tensor([[True, False], [True, True], [False, False]])
    changed = target.clone()
    changed[~mask] = target[mask][0]
    one, other = (output.loss(wanted, mask, torch.Generator().manual_seed(9)) for wanted in (changed, target))
    same = torch.equal(one, other)
    require(same, "a mask leaves entries out of the loss", "another loss")


def _check_loss(head: Head, loss: Tensor) -> None:
    import torch

    require(loss.ndim == 0 and bool(torch.isfinite(loss)), "a loss is one finite number", f"{loss}")
    gradients = torch.autograd.grad(loss, list(head.parameters()), allow_unused=True)
    dead = [name for (name, _), gradient in zip(head.named_parameters(), gradients, strict=True) if gradient is None]
    require(not dead, "the loss teaches every parameter of the head", f"no gradient for {', '.join(dead)}")


def check_learner(lesson: Lesson, agent: Agent, context: Context, *, steps: int = 3) -> None:
    """Check the laws of a lesson's learner and batches on copies of `agent`, for any kind of learner.

    A lesson is a function of (seed, lesson, update, weights): taught twice it ends with the same weights, bit for bit,
    also if it stops after `steps` - 1 and resumes from its checkpoint. Only weights that the learner names in `trains`
    change. `load_state_dict` restores what `state_dict` gives.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    from devmind.checkpointing import generations
    from devmind.config import CheckpointConfig
    from devmind.curriculum.stage import Learner

    before = agent.sha256()
    made = lesson.make_learner(copy.deepcopy(agent), context)
    require(isinstance(made, Learner), "a lesson's learner is a Learner", f"a {type(made).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        seldom = context.config.model_copy(update={"loggers": ()})
        often = seldom.model_copy(
            update={"checkpoint": CheckpointConfig(every="1 step")}
        )  # the first go's are looked at, no others
        here = [
            replace(context, config=config, out=Path(folder, name))
            for name, config in (("straight", often), ("again", seldom), ("resumed", seldom))
        ]
        straight = hash_after_lesson(lesson, agent, here[0], steps)
        require(
            agent.sha256() == before, "a learner improves the agent it is given", "weights of another agent changed"
        )
        require(straight != before, "a learner improves its agent", f"no weight changed in {steps} steps")
        law = "a lesson is a function of seed, update and weights"
        require(
            hash_after_lesson(lesson, agent, here[1], steps) == straight, law, "other weights when it was taught again"
        )
        saved = [generations.load(path) for path in generations.on_shelf(here[0].out / "checkpoints")]
        stopped = next(state for state in saved if state["update"] == steps - 1)
        resumed = hash_after_lesson(lesson, agent, here[2], steps, resume=stopped)
        law = "a lesson that was stopped goes on exactly where it was (state_dict holds all the next update needs)"
        require(resumed == straight, law, "other weights after going on from a checkpoint")
        _check_trains(made, next(state for state in saved if state["update"] == steps)["agent"])
        _check_state(lesson, agent, context, steps, stopped)


def _check_trains(learner: Learner, after: Mapping[str, Tensor]) -> None:
    """Check `trains`; `learner` was made for an untaught copy of the agent."""
    before = learner.agent.state_dict()
    changed = [n for n, x in after.items() if not n.startswith(learner.trains) and not bool((before[n] == x).all())]
    law = "only what a learner names in `trains` changes"
    require(not changed, law, f"{', '.join(changed[:3])} changed, and trains is {learner.trains}")


def _check_state(lesson: Lesson, agent: Agent, context: Context, steps: int, stopped: Mapping[str, Any]) -> None:
    """Check that a learner that loads a state returns that state."""
    from devmind.checkpointing.nested import split_tensors

    pupil = copy.deepcopy(agent)
    pupil.load_state_dict(stopped["agent"])
    learner = lesson.make_learner(pupil, context)
    learner.steps = steps
    learner.begin(steps - 1)
    learner.load_state_dict(stopped["learner"])
    (tree, tensors), (wanted, numbers) = split_tensors(learner.state_dict()), split_tensors(stopped["learner"])
    same = tree == wanted and all(bool((tensors[name] == numbers[name]).all()) for name in numbers)
    require(same, "load_state_dict takes back what state_dict gave", "another state after loading it")


def check_rehearsed(lesson: Lesson, agent: Agent, context: Context) -> None:
    """Check that a lesson that is rehearsed by later stages can be.

    Its learner remembers, and can be saved and loaded. For a batch from after the lesson's end it gives one finite
    number with a gradient in the agent, and the same number twice.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    import torch

    from devmind.curriculum.rehearsal import unrehearsed_why
    from devmind.curriculum.stage import ROWS_SHARE
    from devmind.errors import DevmindError

    if unrehearsed_why(lesson, agent, context):
        return
    pupil, where = copy.deepcopy(agent).train(), f"lesson '{lesson.name}'"
    fewer = replace(context, rows_share=ROWS_SHARE)
    law = "a lesson that trains the trunk can be rehearsed, or says that another goes over it (rehearsed=False)"
    learners = [lesson.make_learner(pupil, fewer) for _ in range(2)]
    batches, losses = lesson.make_batches(pupil, fewer, lesson.steps), []
    try:
        learners[0].remember()
        learners[1].load_state_dict(learners[0].state_dict())
        for learner in learners:
            torch.manual_seed(0)
            loss, _ = learner.rehearse(batches.make(lesson.steps))
            losses.append(loss)
    except (DevmindError, NotImplementedError) as error:
        require(False, law, f"{where}: {error or type(error).__name__}")
    loss = losses[0]
    require(
        loss.ndim == 0 and bool(torch.isfinite(loss)), "a rehearsal's loss is one finite number", f"{where}: {loss}"
    )
    require(loss.requires_grad, law, f"{where}: its rehearsal has no gradient")
    same = torch.equal(loss, losses[1])
    require(same, "what a learner remembers is in its state_dict", f"{where}: another loss after loading it")


def hash_after_lesson(
    lesson: Lesson,
    agent: Agent,
    context: Context,
    steps: int,
    resume: Any = None,
    rehearsal: Callable[[Agent], Sequence[Any]] = lambda pupil: (),
    every: int | None = None,
) -> str:
    """The hash of a copy's weights after the lesson; `rehearsal` says what that copy rehearses, and one of `every`
    updates is one of those.
    """
    import torch

    from devmind.curriculum.journal import Journal
    from devmind.curriculum.teaching import teach

    pupil = copy.deepcopy(agent)
    context.out.mkdir(parents=True)
    journal = Journal(context.out / "journal.jsonl")
    taught = teach(lesson, steps, pupil, context, journal, resume=resume, rehearsal=rehearsal(pupil), every=every)
    finite = all(
        bool(torch.isfinite(value).all()) for value in pupil.state_dict().values() if value.is_floating_point()
    )
    require(finite, "weights stay finite numbers", f"NaN or infinity after {taught.steps} steps of '{lesson.name}'")
    return pupil.sha256()
