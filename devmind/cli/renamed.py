"""Commands and options of earlier versions, and what is typed now."""

from __future__ import annotations

from collections.abc import Sequence

RUN_KEYS = {"--size": "--config NAME", "--text": "--set text.files=[FILE]"}
PAGE_KEYS = {
    "--bind": "--set page.bind=ADDRESS",
    "--port": "--set page.port=N",
    "--no-open": "--set page.open=false",
    "--seconds": "--set seconds=N",
}
COMMANDS = {
    "forget": "devmind memory forget --name NAME",
    "memory list": "devmind memory recall",
    "memory stats": "devmind memory show",
    "sensors list": "devmind sensors",
    "sensors test": "devmind sensors NAME",
    "data list": "devmind data",
    "data get": "devmind data NAME",
    "report show": "devmind report [RUN]",
    "report compare": "devmind report RUN OTHER",
    "session info": "devmind session show SESSION",
    "stage list": "devmind stage show",
    "stage describe": "devmind stage show STAGE",
    "curriculum": "devmind stage run all, or several stages",
    "curriculum run": "devmind stage run all, or several stages",
    "curriculum resume": "devmind stage run --out OUT",
    "curriculum status": "devmind report OUT",
    "curriculum exam": "devmind stage exam OUT",
    "procedures run": "devmind procedures FILE",
    "procedures check": "devmind procedures FILE --check",
    "plan pointmaze": "devmind plan maze MAZE",
    "plan tabletop": "devmind plan table LEVEL",
    "plan market": "devmind plan market LEVEL",
    "plan BabyAI": "devmind plan room ROOM",
    "plan MiniGrid": "devmind plan room ROOM",
    "echo": "devmind hear FILE --echo OUT",
    "demos": "python -m stages.language.follow.demos ROOM",
}
"""By their first words."""
OPTIONS = {
    "hello": PAGE_KEYS | {"--camera": "devmind live --camera SOURCE", "--mic": "devmind live --mic SOURCE"},
    "live": PAGE_KEYS
    | {
        "--hz": "--set hz=N",
        "--host": "--set page.host=HOST",
        "--cert": "--set page.cert=FILE",
        "--key": "--set page.key=FILE",
        "--no-page": "--set page.shown=false",
        "--viewer": "--set viewer=rerun",
        "--learn": "--set learn=true",
        "--plans": "--set plans=FILE",
        "--answers": "--set answers.EFFECTOR=HEAD",
        "--speaker": "--set speaker=SOURCE",
        "--demo": "--world SESSION",
    },
    "memory recall": {"--image": "--like FILE", "--sound": "--like FILE"},
    "teach": {"--rebuild": "devmind memory check --keys-of DIR"},
    "name": {"--rebuild": "devmind memory check --keys-of DIR"},
    "session record": {
        "--seconds": "--set seconds=N",
        "--hz": "--set hz=N",
        "--no-frames": "--set frames=false",
    },
    "session replay": {"--from": "--ticks A-B", "--count": "--ticks A-B"},
    "session repair": {"--out": "devmind session repair SESSION OUT"},
    "session export": {"--out": "devmind session export SESSION OUT"},
    "stage run": RUN_KEYS | {"--seed": "--set seed=N"},
    "stage show": RUN_KEYS,
    "stage exam": {
        "--text": "--set text.files=[FILE]",
        "--exam-seed": "--set seed=N",
        "--config": "--set KEY=VALUE",
    },
    "plan maze": {
        "--start": "--set start=X,Y",
        "--waypoint": "--set waypoints.N=X,Y",
        "--symbols": "--set symbols=MOVES",
        "--steps": "--set steps=N",
        "--horizon": "--set horizon=N",
        "--guidance": "--set guidance=X",
    },
    "procedures": {"--size": "--world NAME:N"},
    "solve": {"--state": "devmind solve PUZZLE STATE", "--proof": "--nodes N"},
    "doctor": {"--out": "devmind doctor OUT"},
    "new": {"--out": "devmind new KIND NAME OUT"},
    "data": {"--out": "devmind data NAME OUT"},
}
"""By command."""


def new_command(words: Sequence[str]) -> str | None:
    """The sentence for a command line that begins as an earlier version's; None if it does not."""
    if not words:
        return None
    second = words[1] if len(words) > 1 else ""
    kind = second.replace(":", "-").partition("-")[0]  # of 'pointmaze-medium', 'market:trend', 'BabyAI-GoTo...'
    for old in (f"{words[0]} {second}", f"{words[0]} {kind}", words[0]):
        if old in COMMANDS and (old, second) != ("plan market", "market"):
            return f"'devmind {old}' has become: {COMMANDS[old]}."
    return None


def new_option(command: str, option: str) -> str | None:
    """The sentence for an option that an earlier version of `command` had; None if it had none."""
    new = OPTIONS.get(command, {}).get(option)
    return f"The option '{option}' of 'devmind {command}' has become: {new}." if new else None
