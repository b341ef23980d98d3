"""The `devmind` command: its groups, and its handling of signals and faults."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

try:
    import typer

    from devmind.cli import (
        checkpoint,
        config,
        data,
        demo,
        doctor,
        feed,
        live,
        memory,
        names,
        new,
        plugins,
        report,
        sensors,
        session,
        sleeping,
        stage,
        study,
        watch,
    )
    from devmind.cli.house import HouseGroup, Terminated, complain, stay_offline
    from devmind.errors import without_secrets
except KeyboardInterrupt:  # loading takes a moment, in which nothing else would answer Ctrl-C with a sentence
    print("Interrupted.", file=sys.stderr)
    sys.exit(130)

AGAIN_S = 0.05
_show_others = warnings.showwarning
_ignored_stops: list[signal.Signals] = []

app = typer.Typer(
    name="devmind",
    cls=HouseGroup,
    pretty_exceptions_enable=False,
    epilog="Start here: devmind hello. To raise one yourself: devmind doctor, then devmind stage run reflex.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import devmind

        print(f"devmind {devmind.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Raise one multimodal agent through developmental stages, and prove what it learned."""


app.add_typer(stage.app, name="stage")
app.add_typer(session.app, name="session")
app.add_typer(memory.app, name="memory")
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(config.app, name="config")
app.add_typer(feed.app, name="feed")
app.add_typer(plugins.app, name="plugins")
app.command("demo")(demo.demo)
app.command("hello")(live.hello)
app.command("live")(live.live)
app.command("teach")(names.teach)
app.command("name")(names.name)
app.command("sleep")(sleeping.sleep_whole)
app.command("study")(study.study)
app.command("watch")(watch.watch)
app.command("data")(data.data)
app.command("report")(report.report)
app.command("sensors")(sensors.sensors)
app.command("doctor")(doctor.doctor)
app.command("new")(new.new)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code.

    0: done or passed; 1: a gate failed, or something needs repair; 2: an error; 130, 143: asked to stop; 141: the
    reader closed the output.
    """
    signal.signal(signal.SIGTERM, _terminated)
    sys.unraisablehook = _ignored
    # Idle OpenMP threads sleep instead of spinning: beside any other load, spinning slowed training tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    stay_offline()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(
            stream, "reconfigure"
        ):  # a terminal with few characters shows '?' for a table's lines, instead of a traceback
            stream.reconfigure(errors="replace")
    try:
        app()
    except (KeyboardInterrupt, Terminated) as stop:  # before a command began, or while an error was being told
        is_interrupt = isinstance(stop, KeyboardInterrupt)
        complain("Interrupted." if is_interrupt else "Terminated.")
        sys.exit(130 if is_interrupt else 143)
    except Exception:
        if _ignored_stops:  # the compiler fails when a stop was ignored in its callback
            number = _ignored_stops[0]
            signal.signal(number, signal.SIG_IGN)  # its second sending would disturb the end
            complain("Interrupted." if number == signal.SIGINT else "Terminated.")
            sys.exit(128 + number)
        print(without_secrets(traceback.format_exc()), end="", file=sys.stderr)
        print("This is a fault in devmind or in a plugin: please report the lines above.", file=sys.stderr)
        sys.exit(2)  # 1 would mean that a gate failed
    sys.exit(0)


def _show_warning(message: Any, category: type[Warning], filename: str, *rest: Any) -> None:
    """devmind's own warnings are sentences for the user; those of others say where they arose."""
    if Path(filename).is_relative_to(Path(__file__).parent.parent):
        complain(f"Note: {message}")
    else:
        _show_others(message, category, filename, *rest)


def _terminated(number: int, frame: Any) -> NoReturn:
    raise Terminated


def _ignored(unraisable: Any) -> None:
    """Send a stop again that was raised where Python ignores errors: in `__del__`, or in a callback of C code. While
    numba compiles, a signal waits until LLVM calls back, so that it always arrives there.
    """
    stops = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}
    number = stops.get(unraisable.exc_type)
    if number is None:
        sys.__unraisablehook__(unraisable)
        return
    _ignored_stops.append(number)
    again = threading.Timer(AGAIN_S, _send, (number,))  # later: here it would be ignored once more
    again.daemon = True
    again.start()


def _send(number: signal.Signals) -> None:
    if hasattr(signal, "pthread_kill"):  # wakes the main thread if it waits
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)
