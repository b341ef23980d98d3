"""The command of the stage: `devmind hear` writes what is said in a recording, or says it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_with_head, folder_with_head
from devmind.cli.house import complain, group
from devmind.cli.options import raised_through
from devmind.cli.paths import existing
from devmind.errors import ConfigError

hear = group("Print the words in a recording, and its kind of sound, or repeat it through the codec.")


@hear.command("hear")
def listen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sound file of any rate, such as WAV, FLAC or M4A.")],
    agent: Annotated[Path | None, raised_through("voice")] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=3600, metavar="S", help="Length from the beginning, in seconds.")
    ] = 60.0,
    echo: Annotated[
        Path | None, typer.Option("--echo", metavar="OUT", help="Repeat it by the codec, into this new WAV file.")
    ] = None,
    go_on: Annotated[
        float,
        typer.Option("--go-on", min=0, max=10, metavar="S", help="With --echo: continue it by S seconds, 10 at most."),
    ] = 0.0,
) -> None:
    """Let an agent listen to a recording, tick by tick. Print its kind of sound, and the words of what is speech.

    An agent that was taught kinds of sounds by recordings leaves out words in what it takes for another sound. With
    --echo it repeats the sound instead, and with --go-on its trunk continues the sound after its end.
    """
    existing(file, "FILE", "file")
    from devmind.sessions.sounds import check_sound

    check_sound(file)  # what is no sound is refused at once, and not after an agent was loaded
    if echo is not None:
        _repeat(file, echo, agent, seconds, go_on)
    elif go_on:
        raise ConfigError("--go-on continues an echo: name its new file by --echo OUT.")
    else:
        _write_words(file, agent, seconds)


def _write_words(file: Path, agent: Path | None, seconds: float) -> None:
    from devmind.sessions.sounds import moments_of

    moments = moments_of(file, seconds, show.line)
    agent = folder_with_head(agent, "voice", "heard_words_arc", "to hear words")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.voice.listening import Hearing
        from stages.voice.parts import NAME, WORDS_ARC
        from stages.voice.sounds.recorded import SOURCE

    with intra_op_threads(1):
        hearing = Hearing(agent_with_head(agent, NAME, WORDS_ARC, "to hear words", stages=(NAME,)), moments)
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


def _repeat(file: Path, out: Path, agent: Path | None, seconds: float, go_on: float) -> None:
    if out.suffix.lower() != ".wav" or out.exists():
        raise ConfigError(f"--echo names a new .wav file; got '{out}'. Choose another name.")
    from devmind.moment import TICK_HZ
    from devmind.sessions.sounds import moments_of

    moments, further = moments_of(file, seconds, show.line), round(go_on * TICK_HZ)
    head, wanted = ("next_code", "to go on with a sound") if further else ("codec", "to repeat what it hears")
    agent = folder_with_head(agent, "voice", head, wanted)
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from devmind.checkpointing.files import write_atomically
        from stages.voice.exhibits import wav
        from stages.voice.listening import repeat
        from stages.voice.parts import NAME

    with intra_op_threads(1):
        _, sound = repeat(agent_with_head(agent, NAME, head, wanted, stages=(NAME,)), moments, further)
    write_atomically(out, wav(sound))
    show.path("echo", out)
