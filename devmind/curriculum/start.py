"""How a stage's run begins: which stage, agent and context."""

from __future__ import annotations

import copy
from pathlib import Path

from devmind import plugins, worlds
from devmind.acting.standing import read_results
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.device import pick_device
from devmind.agent.text import OWN, PAGE_TOKENS, TextEncoder, add_reading
from devmind.agent.vocabulary import make_vocabulary, options_of
from devmind.checkpointing.milestones import newest_milestone
from devmind.config import RunConfig
from devmind.curriculum.progress import say
from devmind.curriculum.stage import Context, Stage
from devmind.errors import ConfigError
from devmind.raised import SIZE, most_raised

TEXT = "text"
"""The sense that is pages."""
EAR = "listen"
"""The sense that is an ear for speech."""
HEARS_BY = {"encoder": "gru", "features": "logmel"}
"""How an agent hears that has such an ear and does not say."""
BEGINS_BY = {"encoder": "conv", "features": "logmel2d"}
"""How one that is given such an ear begins, where nothing else is set: convolutions learn words in fewer steps, and
over bands too they are less mistaken about voices never met."""


def load_stage(name: str) -> Stage:
    """The stage plugin `name`, as an object."""
    loaded = plugins.load("stages", name)
    return loaded() if isinstance(loaded, type) else loaded


def make_context(config: RunConfig, out: Path, data: Path | None, sessions: tuple[Path, ...]) -> Context:
    """The context of a run on simulated worlds.

    Raises:
        ConfigError: the data folder or a session is not there.
    """
    if data is not None and not Path(data).is_dir():
        raise ConfigError(f"--data expects a folder of recordings; '{data}' is no folder.")
    for session in sessions:
        if not Path(session).is_file():
            raise ConfigError(f"--experience expects a recorded session; there is no file '{session}'.")
    device = str(pick_device(config.device))
    return Context(config, config.seed, device, Path(out), worlds.make, Path(data) if data else None, tuple(sessions))


def starting_agent(stage: Stage, config: RunConfig, given: Path | None, runs: Path) -> tuple[Agent, Path | None, bool]:
    """The agent a stage goes on from, its folder, and whether that agent had failed its last gate.

    It is the given one, else the newest milestone under `runs` that has passed what the stage requires, else one that
    comes with devmind and has been through that, else one that was taught nothing.

    Raises:
        ConfigError: a required stage is missing, or the configuration wants a trunk that the agent does not have.
    """
    folder = Path(given) if given else newest_milestone(runs, stage.requires) if stage.requires else None
    if folder is None and stage.requires and config.size == SIZE:
        folder = most_raised(stage.requires, without=stage.name)
        if folder is not None:
            say(f"nothing below {runs} has been through {', '.join(stage.requires)}: going on from '{folder.name}', "
                "which comes with devmind")  # fmt: skip
    if folder is None:
        born = AgentConfig(
            size=config.size, seed=config.seed, pretrained=config.trunk.pretrained, window=config.trunk.window or 0
        )
        agent, failed = Agent(born), False
    else:
        agent, failed = Agent.from_pretrained(folder), not gate_passed(folder)
        apply_trunk(config, agent, folder)
    missing = [name for name in stage.requires if name not in agent.config.stages]
    if missing:
        raise ConfigError(
            f"Stage '{stage.name}' requires {', '.join(missing)} first; give --agent with a milestone of it, "
            f"or run 'devmind stage run {missing[0]}'."
        )
    return agent, folder, failed


def give_reading(stage: Stage, agent: Agent, context: Context) -> None:
    """Add the encoder of pages by the tokenizer of the configuration, where it is `stage` that brings pages of text.

    A vocabulary is made of what the stage says that its lessons read, `stage.taught_text(context)`: nothing that an
    exam holds out has a part in it.

    Raises:
        ConfigError: the agent reads otherwise, or the tokenizer cannot be had.
    """
    wanted = context.config.text.tokenizer
    if wanted is None:
        return
    has = {entry["name"]: entry["options"] for entry in agent.config.encoders}.get(TEXT)
    if has is not None:
        reads = OWN if has.get("plain") else has.get("tokenizer", "bytes")
        if wanted != reads and not (reads == "bpe" and _vocabulary_of(wanted) == has["vocabulary"]):
            raise ConfigError(
                f"text.tokenizer={wanted} cannot be had: the agent reads by '{reads}', and what it learned is of that. "
                "Leave the setting out, or go on from an agent that has not learned to read."
            )
        return
    if TEXT not in admitted(stage, agent).encoders:
        return
    if wanted == "bpe":
        read = getattr(stage, "taught_text", None)
        if read is None:
            raise ConfigError(
                f"text.tokenizer=bpe makes a vocabulary of what lessons read, and stage '{stage.name}' does not say "
                "what that is; give a file tokenizer.json."
            )
        vocabulary = make_vocabulary(read(context), context.config.text.pieces)
        options = {"tokenizer": "bpe", "limit": PAGE_TOKENS, **options_of(vocabulary)}
        agent.add_encoder(TEXT, "encoder.text", stage=stage.name, options=options)
    else:
        add_reading(agent, wanted, stage=stage.name)
    encoder = agent.encoder(TEXT)
    if isinstance(encoder, TextEncoder) and encoder.begin is None:
        raise ConfigError(
            f"The vocabulary of text.tokenizer={wanted} has no token with which a page begins, such as <s>, so nothing "
            "could be written at its beginning; give another one."
        )


def _vocabulary_of(tokenizer: str) -> str | None:
    return Path(tokenizer).read_text(encoding="utf-8") if Path(tokenizer).is_file() else None


def give_hearing(agent: Agent, config: RunConfig) -> None:
    """Note in the agent how an ear for speech is to be built, for the stage that brings one; heads that write words can
    be added to one that has an ear already.

    Raises:
        ConfigError: the agent has an ear of another kind, and what it learned is of that.
    """
    wanted = config.hearing.model_dump(exclude_none=True)
    if EAR not in agent.encoders:
        agent.config.hearing = {**BEGINS_BY, **agent.config.hearing, **wanted}
        return
    has = {**HEARS_BY, **agent.config.hearing}
    for setting, value in wanted.items():
        if setting in HEARS_BY and value != has[setting]:
            raise ConfigError(
                f"hearing.{setting}={value} cannot be had: the agent hears by '{has[setting]}', and what it learned is "
                "of that. Leave the setting out, or go on from an agent that has no ear for speech yet."
            )
    agent.config.hearing = {**agent.config.hearing, **wanted}


def missing_parts(stage: Stage, agent: Agent, for_exam: bool = False) -> str:
    """The names of what the stage adds and the agent lacks, layers of the trunk too; "" where it lacks nothing.

    Args:
        for_exam: of that what an exam needs: no critic, and none of the parts that the stage calls `optional`.
    """
    whole = admitted(stage, agent)
    heads, encoders = set(whole.heads), set(whole.encoders)
    if for_exam:
        optional = set(getattr(stage, "optional", ()))
        heads, encoders = {name for name in heads if not whole.head(name).critic} - optional, encoders - optional
    layers = {f"the trunk's layers of '{name}'" for name in set(whole.config.grown) - set(agent.config.grown)}
    return ", ".join(sorted((encoders - set(agent.encoders)) | (heads - set(agent.heads)) | layers))


def admitted(stage: Stage, agent: Agent) -> Agent:
    """A copy of the agent with all that the stage adds."""
    copied = copy.deepcopy(agent)
    stage.admit(copied)
    return copied


def gate_passed(folder: Path) -> bool:
    """Whether the agent of a milestone had passed the gate of its last stage.

    Raises:
        CheckpointError: its results are not what was written with it.
    """
    verdict = (read_results(folder) or {}).get("verdict")
    return isinstance(verdict, dict) and verdict.get("passed") is True


def apply_trunk(config: RunConfig, agent: Agent, folder: Path) -> None:
    """Give a saved agent the trunk's settings of a run: its window can change, what it was made of cannot.

    Raises:
        ConfigError: another decoder is asked for than the agent has.
    """
    if config.trunk.window:
        agent.set_window(config.trunk.window)
    wanted, has = config.trunk.pretrained, agent.config.trunk_source
    if wanted is not None and wanted != has:
        raise ConfigError(
            f"trunk.pretrained={wanted} cannot be had: the agent in {folder} was made with {has}. Leave the setting "
            "out, or raise a newborn with it (a first stage without --agent)."
        )
