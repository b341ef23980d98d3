"""Shared parts of all commands: one-sentence errors, nearest names, exit codes, and commands of plugins."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as click_command

from devmind import plugins
from devmind.cli import renamed, show
from devmind.errors import DevmindError, nearest, without_library, without_secrets

REFUSALS = {
    errno.ENOSPC: "the disk is full, free some space",
    errno.EDQUOT: "the quota is used up, remove some files",
    errno.EROFS: "the disk is read-only, choose another folder",
    errno.EACCES: "change its permissions, or choose another folder",
    errno.EPERM: "change its permissions, or choose another folder",
    errno.EISDIR: "a file is expected there, give a file's name",
    errno.EEXIST: "choose another name, or move away what is there",
    errno.ENOTDIR: "a folder is expected there, choose another",
}
"""Errors of a disk that any command may meet, and what to do."""


EXPECTED = {
    r"Input should be a valid integer.*": "a whole number is expected",
    r"Input should be a valid number.*": "a number is expected",
}
"""Messages of the number parser, in plain words."""


PANELS = {
    "Meet": "demo hello live teach name say hear play solve navigate plan",
    "Raise": "stage sleep study watch checkpoint data feed config",
    "Look": "report memory session sensors doctor",
    "Extend": "new plugins procedures",
}
"""The groups of commands in the help, with their commands in order; those of other packages' plugins follow."""
PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names.split()}
OTHERS = "From plugins"


DISTRIBUTION = "devmind"
"""The distribution of the packaged stages and their commands."""


HUB = "HF_HUB_OFFLINE"
_typed = True
"""Whether the variable is as the user set it."""


def stay_offline() -> None:
    """Keep libraries from asking Hugging Face's hub; to be called before heavy imports.

    A stranger's agent may name a decoder, and libraries report their users. `may_ask_hub` undoes this.
    """
    global _typed
    if not os.environ.get(HUB) and not os.environ.get("TRANSFORMERS_OFFLINE"):
        os.environ[HUB], _typed = "1", False


def may_ask_hub(source: str | None) -> None:
    """Allow the hub if the user has typed a decoder's `source` that is no folder."""
    if source and not _typed and not Path(source).is_dir():
        os.environ[HUB] = "0"


class Terminated(BaseException):
    """SIGTERM arrived."""


def group(help: str) -> typer.Typer:
    """A command group with devmind's behaviour."""
    return typer.Typer(cls=HouseGroup, help=help, add_completion=False, pretty_exceptions_enable=False)


class HouseGroup(TyperGroup):
    """A group that names the nearest command, shows its help without arguments, and adds the plugins' commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As Typer does, but without arguments show the help; `devmind help COMMAND` works, `devmind version` is
        explained.
        """
        if ctx.parent is None and args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        if ctx.parent is None and args[:1] == ["version"]:
            if args[1:] == ["--help"]:
                raise DevmindError("'version' is an option: 'devmind --version' prints the version and exits.")
            args = ["--version", *args[1:]]
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: Any) -> list[str]:
        """Own commands; in the root also those of plugins, in the order of `PANELS`."""
        own = super().list_commands(ctx)
        if ctx.parent:
            return own
        of_plugins = (name for name in plugins.available("commands") if name not in renamed.COMMANDS)
        every, ranks = dict.fromkeys([*own, *of_plugins]), list(PANEL_OF)
        return sorted(every, key=lambda name: ranks.index(name) if name in PANEL_OF else len(ranks))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A third-party plugin's command is only announced here, because help must not import it."""
        command: Any = super().get_command(ctx, cmd_name)
        found = None if command or ctx.parent else plugins.available("commands").get(cmd_name)
        if found is not None:
            command = of_plugin(found) if found.distribution == DISTRIBUTION else PluginCommand(found)
        if command is not None and not ctx.parent:
            command.rich_help_panel = PANEL_OF.get(cmd_name, OTHERS)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run; if there is none, DevmindError says what it has become, or names the nearest."""
        known = self.list_commands(ctx)
        if ctx.parent is None and (said := renamed.new_command(args)):
            raise DevmindError(said)
        if args[0] not in known and not args[0].startswith("-"):
            raise DevmindError(f"There is no command '{_after(ctx, args[0])}'{nearest(args[0], known)}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.loaded() if isinstance(command, PluginCommand) else command, rest

    def invoke(self, ctx: Any) -> Any:
        """As Typer does; Ctrl-C ends with a sentence, a closed pipe without one."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("Interrupted.")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            show.nobody_reads()
            raise typer.Exit(show.PIPE_CLOSED) from None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run and exit; `ctx.obj` is the command line as typed."""
        args = list(sys.argv[1:] if args is None else args)
        with exit_codes():
            extra |= {"standalone_mode": False, "obj": shlex.join(["devmind", *args])}
            if not rest:  # 'python -m devmind' has another name, which neither sentences nor completion should use
                extra["prog_name"] = extra.get("prog_name") or "devmind"
            code = super().main(args, *rest, **extra)
        sys.exit(code if isinstance(code, int) else 0)


def of_plugin(plugin: plugins.Plugin) -> Any:
    """The command of a plugin, imported now."""
    command = click_command(plugin.load())
    command.name = plugin.name
    return command


class PluginCommand(TyperCommand):
    """The help line of a plugin's command."""

    def __init__(self, plugin: plugins.Plugin) -> None:
        super().__init__(plugin.name, help=f"(from {plugin.distribution} {plugin.version})")
        self.plugin = plugin

    def loaded(self) -> Any:
        """The real command, imported now."""
        return of_plugin(self.plugin)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn errors of a command into a sentence on stderr and an exit code; faults keep their traceback."""
    try:
        yield
    except DevmindError as error:
        _leave(str(error), 2)
    except typer.TyperException as error:
        _leave(_usage_sentence(error), 2)
    except Terminated:
        _leave("Terminated.", 143)
    except ImportError as error:
        if not (sentence := without_library(error)):
            raise
        _leave(sentence, 2)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        what = (
            "the output" if error.filename is None else f"'{error.filename}'"
        )  # a failed write does not name its file
        _leave(f"The system refuses {what}: {error.strerror}; {REFUSALS[error.errno]}.", 2)


def complain(sentence: str) -> None:
    """One line on stderr, without credentials."""
    print(without_secrets(" ".join(sentence.split())), file=sys.stderr)


def _leave(sentence: str, code: int) -> None:
    complain(sentence)
    sys.exit(code)


def _after(ctx: Any, name: str) -> str:
    """`name` after the group in which it was looked for: 'stage lst', or 'stge' at the root."""
    return " ".join([*ctx.command_path.split()[1:], name])


def _usage_sentence(error: Any) -> str:
    """Typer's message about an option or argument, as one sentence that names the nearest option."""
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    if context and option and hasattr(error, "possibilities"):
        known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        if said := renamed.new_option(_after(context, "").strip(), option):
            return said
        where = f"devmind {_after(context, '')}".strip()
        return f"'{where}' has no option '{option}'{nearest(option, [*known, '--help'])}"
    said = error.format_message().rstrip(".")
    for theirs, ours in EXPECTED.items():
        said = re.sub(theirs, ours, said)
    return said + (f"; see '{context.command_path} --help'." if context else ".")
