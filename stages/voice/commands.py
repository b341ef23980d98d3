"""The commands of the stage: `devmind hear` writes what is said in a recording, `devmind echo` says it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_option, raised_through, taught_agent, taught_folder
from devmind.cli.house import complain, group
from devmind.cli.paths import existing
from devmind.errors import ConfigError

hear = group("Print the words in a recording, and its kind of sound.")
echo = group("Repeat a recording through the codec.")

Recording = Annotated[Path, typer.Argument(metavar="FILE", help="A sound file of any rate, such as WAV, FLAC or M4A.")]
Folder = Annotated[
    Path | None,
    agent_option(raised_through("voice")),
]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0.1, max=3600, metavar="S", help="Length from the beginning, in seconds.")
]


@hear.command("hear")
def write_what_is_said(file: Recording, agent: Folder = None, seconds: Seconds = 60.0) -> None:
    """Let an agent listen to a recording, tick by tick. Print its kind of sound, and the words of what is speech.

    An agent that was taught kinds of sounds by recordings leaves out words in what it takes for another sound.
    """
    _check(file)
    from devmind.sessions.sounds import moments_of

    moments = moments_of(file, seconds, show.line)
    agent = taught_folder(agent, "voice", "heard_words_arc", "to hear words")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.voice.listening import Hearing
        from stages.voice.parts import NAME, WORDS_ARC
        from stages.voice.sounds.recorded import SOURCE

    with intra_op_threads(1):
        hearing = Hearing(taught_agent(agent, NAME, WORDS_ARC, "to hear words", stages=(NAME,)), moments)
        heard = " ".join(words for _, words in hearing.words())
    kind = hearing.kind()
    if kind:
        typer.echo(f"kind of sound: {kind[0]} ({kind[1]:.2f})")
    typer.echo(heard or "no word was heard")
    if kind and not any(group.startswith(SOURCE) for group in hearing.agent.config.trained_on):
        complain(
            "Note: this agent learned from synthetic sounds only, so it may take other sounds for speech and hear "
            "words in them."
        )


@echo.command("echo")
def say_again(
    file: Recording,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new WAV file.")],
    agent: Folder = None,
    seconds: Seconds = 60.0,
    go_on: Annotated[
        float,
        typer.Option(
            "--go-on", min=0, max=10, metavar="S", help="Continue the sound after its end by S seconds, 10 at most."
        ),
    ] = 0.0,
) -> None:
    """Let an agent repeat a recording by its codec, and write the sound.

    With --go-on, the trunk continues the recording after its end.
    """
    _check(file)
    if out.suffix.lower() != ".wav" or out.exists():
        raise ConfigError(f"OUT must be a new .wav file; got '{out}'. Choose another name.")
    from devmind.moment import TICK_HZ
    from devmind.sessions.sounds import moments_of

    moments, further = moments_of(file, seconds, show.line), round(go_on * TICK_HZ)
    head, wanted = ("next_code", "to go on with a sound") if further else ("codec", "to repeat what it hears")
    agent = taught_folder(agent, "voice", head, wanted)
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from devmind.checkpointing.files import write_atomically
        from stages.voice.exhibits import wav
        from stages.voice.listening import repeat
        from stages.voice.parts import NAME

    with intra_op_threads(1):
        _, sound = repeat(taught_agent(agent, NAME, head, wanted, stages=(NAME,)), moments, further)
    write_atomically(out, wav(sound))
    show.path("echo", out)


def _check(file: Path) -> None:
    """Refuse what is no sound at once, and not after an agent was loaded."""
    existing(file, "FILE", "file")
    from devmind.sessions.sounds import check_sound

    check_sound(file)
