"""The start of a stage's run: its stage, agent and context."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from devmind import bounds, plugins, worlds
from devmind.acting.standing import read_results
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import pick_device
from devmind.agent.text import OWN, PAGE_TOKENS, TextEncoder, add_reading
from devmind.agent.vocabulary import FILE_BYTES, make_vocabulary, options_of
from devmind.checkpointing.milestones import newest_milestone
from devmind.config import FeedConfig, RunConfig
from devmind.curriculum.gate import Gate
from devmind.curriculum.progress import say
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.errors import ConfigError, PluginError, nearest
from devmind.raised import SIZE, most_raised
from devmind.worlds.fed import FedWorld, with_feed

TEXT = "text"
"""The sense of pages of text."""


def load_stage(name: str) -> Stage:
    """The stage plugin `name`, as an object.

    Raises:
        PluginError: there is no such stage, or it is not as a run needs it (`check_members`).
    """
    loaded = plugins.load("stages", name)
    try:
        stage = loaded() if isinstance(loaded, type) else loaded
    except TypeError as error:
        raise PluginError(f"The stage '{name}' cannot be made: {error}. Its class takes no arguments.") from error
    check_members(name, stage)
    return stage


MEMBERS = ("name", "requires", "skills", "admit", "lessons")


def check_members(name: str, stage: Any) -> None:
    """Refuse a stage with which a run would go wrong at its end, or silently: `check_stage` knows more laws.

    Raises:
        PluginError: it lacks a member, has another name than its entry point, has no skills or two of one name, or a
            skill has no gate.
    """

    def refuse(what: str, advice: str) -> NoReturn:
        raise PluginError(f"The stage '{name}' {what}; {advice}.")

    if missing := [member for member in MEMBERS if not hasattr(stage, member)]:
        refuse(f"has no '{missing[0]}'", f"a stage has five members, {', '.join(MEMBERS)}")
    if stage.name != name:
        refuse(f"calls itself {stage.name!r}", "its entry point and its `name` must be the same")
    if not isinstance(stage.requires, tuple | list) or stage.name in stage.requires:
        refuse(f"requires {stage.requires!r}", "expected a tuple of other stages' names, such as ('reflex',)")
    skills = stage.skills
    if not isinstance(skills, tuple | list) or not skills or not all(isinstance(one, Skill) for one in skills):
        refuse(
            "has no tuple of skills",
            "without an exam it would pass whatever it has learned. Give `skills = (Skill(...),)`",
        )
    names = [skill.name for skill in skills]
    if twice := [one for one in names if names.count(one) > 1]:
        refuse(f"has two skills named '{twice[0]}'", "one's results would be taken for the other's")
    for skill in skills:
        gated = bool(skill.gate.thresholds) if isinstance(skill.gate, Gate) else callable(skill.gate)
        if not gated:
            refuse(
                f"has no gate for its skill '{skill.name}'", "give Gate([Threshold(...)]), or a function of the context"
            )


def make_context(config: RunConfig, out: Path, data: Path | None, sessions: tuple[Path, ...]) -> Context:
    """The context of a run on simulated worlds.

    Raises:
        ConfigError: the data folder, a session or a text does not exist.
    """
    if data is not None and not Path(data).is_dir():
        raise ConfigError(f"--data expects a folder of recordings; '{data}' is no folder.")
    for session in sessions:
        if not Path(session).is_file():
            raise ConfigError(f"--experience expects a recorded session; there is no file '{session}'.")
    for text in config.text.files or ():
        if not Path(text).is_file():
            raise ConfigError(f"The key text.files expects files of text; there is no file '{text}'.")
    device = str(pick_device(config.device))
    fed = None if config.feed.place is None else open_feed(config.feed)
    make = with_feed(worlds.make, fed) if fed else worlds.make
    folder = Path(data) if data else None
    return Context(config, config.seed, device, Path(out), make, folder, tuple(sessions), feed=fed)


def open_feed(feed: FeedConfig) -> FedWorld:
    """What a feed brings of one world.

    Raises:
        ConfigError: it is not said which world that is, and the spool is empty.
        FeedError: the spool cannot be read.
    """
    from devmind.feed.reader import Episodes, Source, world_in

    token, cert = (Path(file) if file else None for file in (feed.token, feed.cert))
    source = Source(str(feed.place), token, cert)
    world = feed.world or world_in(source)
    if not world:
        raise ConfigError(
            f"The feed '{feed.place}' does not say whose experience it is; say it: --set feed.world=NAME (one of "
            "'devmind plugins show', or 'room')."
        )
    return FedWorld(world, lambda: Episodes(source, world, warnings.warn, feed.samples_per_insert))


def starting_agent(stage: Stage, config: RunConfig, given: Path | None, runs: Path) -> tuple[Agent, Path | None, bool]:
    """The agent that a stage begins with, its folder, and whether that agent had failed its last gate.

    It is the given agent, else the newest milestone under `runs`, of the run's size, that has passed what the stage
    requires, else a packaged agent that has been through that, else an untaught agent. An agent that has been through
    the stage itself is only taken if it is given: another seed would continue from it.

    Raises:
        ConfigError: a required stage is missing, or the configuration wants a trunk or a size that the agent does not
            have.
    """
    folder = Path(given) if given else None
    if folder is None and stage.requires:
        folder = newest_milestone(runs, stage.requires, without=stage.name, size=config.size)
    if folder is None and stage.requires and config.size == SIZE:
        folder = most_raised(stage.requires, without=stage.name)
        if folder is not None:
            say(f"nothing below {runs} has been through {', '.join(stage.requires)}: beginning with '{folder.name}', "
                "which comes with devmind")  # fmt: skip
    if folder is None:
        born = AgentConfig(
            size=config.size, seed=config.seed, pretrained=config.trunk.pretrained, window=config.trunk.window or 0
        )
        agent, failed = Agent(born), False
    else:
        agent, failed = Agent.from_pretrained(folder), not gate_passed(folder)
        if agent.config.size != config.size:
            raise ConfigError(
                f"The agent in '{folder}' has size {agent.config.size}, and this run has size {config.size}; give "
                f"--config {agent.config.size}, or --agent with an agent of size {config.size}."
            )
        apply_trunk(config, agent, folder)
    missing = [name for name in stage.requires if name not in agent.config.stages]
    for name in missing:
        if name not in (known := plugins.available("stages")):
            raise ConfigError(f"Stage '{stage.name}' requires a stage '{name}', which is none{nearest(name, known)}")
    if missing:
        raise ConfigError(
            f"Stage '{stage.name}' requires {', '.join(missing)} first; give --agent with a milestone of it at size "
            f"{config.size}, or run 'devmind stage run {missing[0]} --config {config.size}'."
        )
    return agent, folder, failed


def give_reading(stage: Stage, agent: Agent, context: Context) -> None:
    """Add the encoder of pages with the configuration's tokenizer, if it is `stage` that brings pages of text.

    A vocabulary is made from the text of the stage's lessons, `stage.taught_text(context)`, which contains nothing that
    an exam holds out.

    Raises:
        ConfigError: the agent has another tokenizer, or the tokenizer is not available.
    """
    wanted = context.config.text.tokenizer
    if wanted is None:
        return
    has = {entry["name"]: entry["options"] for entry in agent.config.encoders}.get(TEXT)
    if has is not None:
        reads = OWN if has.get("plain") else has.get("tokenizer", "bytes")
        if wanted != reads and not (reads == "bpe" and _vocabulary_of(wanted) == has["vocabulary"]):
            raise ConfigError(
                f"text.tokenizer={wanted} cannot be used: the agent has learned to read by '{reads}'. "
                "Leave the setting out, or begin with an agent that has not learned to read."
            )
        return
    if TEXT not in admit_stage(stage, agent).encoders:
        return
    if wanted == "bpe":
        read = getattr(stage, "taught_text", None)
        if read is None:
            raise ConfigError(
                f"text.tokenizer=bpe makes a vocabulary from the text of the lessons, but stage '{stage.name}' has no "
                "`taught_text` that gives this text; give a file tokenizer.json."
            )
        vocabulary = make_vocabulary(read(context), context.config.text.pieces)
        options = {"tokenizer": "bpe", "limit": PAGE_TOKENS, **options_of(vocabulary)}
        agent.add_encoder(TEXT, "encoder.text", stage=stage.name, options=options)
    else:
        add_reading(agent, wanted, stage=stage.name)
    encoder = agent.encoder(TEXT)
    if isinstance(encoder, TextEncoder) and encoder.begin is None:
        raise ConfigError(
            f"The vocabulary of text.tokenizer={wanted} has no token that begins a page, such as <s>, so the agent "
            "could not write the first token of a page; give another one."
        )


def _vocabulary_of(tokenizer: str) -> str | None:
    return bounds.read_text(Path(tokenizer), ConfigError, FILE_BYTES) if Path(tokenizer).is_file() else None


def give_settings(stage: Stage, agent: Agent, config: RunConfig) -> None:
    """Give the stage its settings of the configuration, by its `configure(agent, settings)`, before it adds its parts.

    Raises:
        ConfigError: a stage with settings is none, has none, or cannot take these with this agent.
    """
    for name in config.stages:
        if name not in (known := plugins.available("stages")):
            raise ConfigError(f"stages.{name}: there is no stage '{name}'{nearest(name, known)}")
    given = config.stages.get(stage.name, {})
    configure = getattr(stage, "configure", None)
    if configure is not None:
        configure(agent, given)
    elif given:
        raise ConfigError(f"The stage '{stage.name}' has no settings; leave stages.{stage.name} out.")


def missing_parts(stage: Stage, agent: Agent, for_exam: bool = False) -> str:
    """The names of parts and trunk layers that the stage adds and the agent lacks; "" if it lacks none.

    Args:
        for_exam: only those that an exam needs: no critic.
    """
    whole = admit_stage(stage, agent)
    heads, encoders = set(whole.heads), set(whole.encoders)
    if for_exam:
        heads = {name for name in heads if not whole.head(name).critic}
    layers = {f"the trunk's layers of '{name}'" for name in set(whole.config.grown) - set(agent.config.grown)}
    return ", ".join(sorted((encoders - set(agent.encoders)) | (heads - set(agent.heads)) | layers))


def other_version(stage: Stage, agent: Agent, plan: Mapping[str, Any] | None, context: Context) -> str:
    """How `stage` differs from its version that began the run of `agent` and `plan`; "" if it does not."""
    if missing := missing_parts(stage, agent):
        return f"agent lacks {missing}, which the stage adds now"
    planned, lessons = list(plan["steps"]) if plan else [], [lesson.name for lesson in stage.lessons(context)]
    if planned and set(planned) != set(lessons):
        return f"lessons were {', '.join(planned)}, now {', '.join(lessons)}"
    return ""


def admit_stage(stage: Stage, agent: Agent) -> Agent:
    """A copy of the agent with all parts that the stage adds.

    Raises:
        PluginError: the stage cannot add them to this agent; most often it has them, and `admit` does not look.
    """
    copied = copy.deepcopy(agent)
    try:
        stage.admit(copied)
    except PluginError as error:
        raise PluginError(
            f"The stage '{stage.name}' cannot add its parts to this agent: {error} If the agent has them from this "
            "stage, `admit` must add only what is not there yet."
        ) from error
    return copied


def gate_passed(folder: Path) -> bool:
    """Whether the agent of a milestone had passed the gate of its last stage.

    Raises:
        CheckpointError: its results were damaged or edited.
    """
    verdict = (read_results(folder) or {}).get("verdict")
    return isinstance(verdict, dict) and verdict.get("passed") is True


def apply_trunk(config: RunConfig, agent: Agent, folder: Path) -> None:
    """Apply a run's trunk settings to a saved agent: its window can change, its decoder cannot.

    Raises:
        ConfigError: the configuration asks for another decoder than the agent has.
    """
    if config.trunk.window:
        agent.set_window(config.trunk.window)
    wanted, has = config.trunk.pretrained, agent.config.trunk_source
    if wanted is not None and wanted != has:
        raise ConfigError(
            f"trunk.pretrained={wanted} cannot be used: the agent in {folder} was made with {has}. Leave the setting "
            "out, or raise a newborn with it (a first stage without --agent)."
        )
