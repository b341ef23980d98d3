"""`devmind live`, `hello` and `watch`: printed or shown, recorded on request, clear errors for invalid options."""

from __future__ import annotations

import re
import socket
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from devmind import plugins
from devmind.cli.devices import doors
from devmind.cli.live import _Teller
from devmind.live.checking import check_replay
from devmind.live.serving.hub import Hub
from devmind.live.watching import Watching
from devmind.moment import Moment
from devmind.raised import FOLDER
from devmind.sessions.reader import Session
from devmind.testing import short_session, tiny_agent
from tests import turning

ROOM = ("--camera", "synthetic", "--mic", "synthetic")
UNSHOWN = ("--set", "page.shown=false")


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    agent = tiny_agent()
    turning.admit(agent)
    folder = tmp_path_factory.mktemp("raised") / "agent"
    agent.save_pretrained(folder)
    return folder


def test_one_second_of_life_is_printed_and_recorded_for_its_owner_only(
    devmind: Any, raised: Path, tmp_path: Path
) -> None:
    words = ("live", "--agent", raised, *ROOM, "--set", "seconds=0.5", *UNSHOWN)
    lived = devmind(*words, "--record", "s.mcap")
    assert lived.exit_code == 0, lived.output
    assert "look" in lived.output
    assert "at the 99th percentile" in " ".join(lived.output.split())
    session = Session(tmp_path / "s.mcap")
    assert len(session) >= 1
    assert {"sight", "body"} <= set(session.senses)
    assert len(list(session.frames())) >= len(session) - 1
    assert stat.S_IMODE((tmp_path / "s.mcap").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o700
    before = sorted(tmp_path.rglob("*.mcap"))
    assert devmind(*words).exit_code == 0
    assert sorted(tmp_path.rglob("*.mcap")) == before, "nothing is recorded without --record"
    checked = devmind("session", "replay", "--check", "s.mcap", "--agent", raised)
    assert checked.exit_code == 0, checked.output
    assert "all as recorded" in checked.output


def test_procedures_run_in_a_simulated_world_and_are_printed(devmind: Any, raised: Path, tmp_path: Path) -> None:
    plans = "achieve greeted\nplan greet {\n  for achieve greeted\n  do { look_at(40, 0) wait heard(hello) }\n}\n"
    (tmp_path / "greet.plan").write_text(plans)
    words = ("--world", "nursery:hide/moved", "--set", "plans=greet.plan", "--set", "seconds=0.3", *UNSHOWN)
    lived = devmind("live", "--agent", raised, *words)
    assert lived.exit_code == 0, lived.output
    assert "look +1.00" in lived.output
    assert "· greeted: greeted by greet" in " ".join(lived.output.split())


def test_fault_is_reported_once_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    faults: list[str] = []
    life: Any = SimpleNamespace(faults=lambda: [fault for fault in faults if fault], directing=None)
    teller = _Teller(life)
    for second, fault in enumerate(("", "the disk is full.", "the disk is full.", "it is damaged.", "", "")):
        faults[:] = [fault]
        action = SimpleNamespace(effectors={})
        teller(SimpleNamespace(moment=Moment(float(second), {}), action=action, work_s=0.0))
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "Note: the disk is full.",
        "Note: it is damaged.",
        "Note: this is over: the disk is full.",
        "Note: this is over: it is damaged.",
    ]
    assert len(told.out.splitlines()) == 6


def test_recorded_session_serves_as_camera_and_microphone(devmind: Any, raised: Path, tmp_path: Path) -> None:
    short_session(tmp_path / "tape.mcap")
    words = ("--world", "tape.mcap", "--set", "seconds=0.4", *UNSHOWN, "--record", "d.mcap")
    lived = devmind("live", "--agent", raised, *words)
    assert lived.exit_code == 0, lived.output
    tape, again = Session(tmp_path / "tape.mcap"), Session(tmp_path / "d.mcap")
    shown = {moment.senses["sight"].tobytes() for moment, _ in again if "sight" in moment.senses}
    assert shown
    assert again.metadata["demo"] == "tape.mcap"
    assert len(tape) > 0


def test_page_opens_once_and_no_agent_means_the_newborn(
    devmind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    lived = devmind("hello", "--set", "seconds=0.3")
    assert lived.exit_code == 0, lived.output
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", lived.output)
    assert "sight: missing in" in lived.output, "nobody opened the page"
    assert list((tmp_path / "elsewhere").iterdir()) == [], "its memory is one place of the user's"
    assert [path.name for path in (tmp_path / "own" / "devmind").iterdir()] == ["memory"]
    assert stat.S_IMODE((tmp_path / "own" / "devmind" / "memory").stat().st_mode) == 0o700
    assert "is kept in" in lived.output
    assert "./memory too" not in lived.output
    given = devmind("hello", "--set", "seconds=0.2", "--memory", "memory")
    assert given.exit_code == 0, given.output
    assert (tmp_path / "elsewhere" / "memory").is_dir()
    again = devmind("hello", "--set", "seconds=0.2")
    assert "there is a memory in ./memory too" in " ".join(again.output.split())
    assert "devmind hello --memory memory" in " ".join(again.output.split())


def test_private_life_writes_no_file(devmind: Any, raised: Path, tmp_path: Path, audit: list[str]) -> None:
    lived = devmind("live", "--agent", raised, *ROOM, "--set", "seconds=0.5", "--private")
    assert lived.exit_code == 0, lived.output
    assert audit == []
    assert list(tmp_path.rglob("*")) == []
    devmind("live", "--agent", raised, *ROOM, "--set", "seconds=0.2", "--record", "s.mcap", *UNSHOWN)
    assert [path for path in audit if path.endswith("s.mcap")], "the audit sees what is written"


def test_private_hello_keeps_nothing_of_a_class(
    devmind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audit: list[str]
) -> None:
    """It wrote what thirty pupils taught into the teacher's own memory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    met = devmind("hello", "--private", "--set", "seconds=0.3")
    assert met.exit_code == 0, met.output
    assert "private: nothing is kept" in met.output
    assert "is kept in" not in met.output
    assert audit == []
    assert list(tmp_path.rglob("*")) == []
    both = devmind("hello", "--private", "--memory", "m", "--set", "seconds=0.3")
    assert both.exit_code == 2
    assert "excludes --memory" in f"{both.exception} {both.output}"


def test_missing_camera_is_named_beside_a_missing_pyaudio(
    devmind: Any, raised: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the microphone's package was named, where the camera does not exist either."""
    monkeypatch.setitem(sys.modules, "pyaudio", None)
    refused = devmind("live", "--agent", raised, "--camera", "55", "--mic", "default", "--set", "seconds=0.3")
    said = " ".join(f"{refused.exception} {refused.output}".split())
    assert refused.exit_code != 0
    assert "camera: There is no camera '55' (/dev/video55 does not exist)." in said
    assert "microphone: Live sound needs PyAudio" in said
    assert "--mic none" in said


def test_listening_for_a_published_port_is_explicit_and_warned_of(devmind: Any, raised: Path) -> None:
    words = ("live", "--agent", raised, *ROOM, "--set", "seconds=0.2", "--set", "page.bind=0.0.0.0")
    assert "needs page.port" in " ".join(devmind(*words).output.split())
    lived = devmind(*words, "--set", f"page.port={free_port()}")
    assert lived.exit_code == 0, lived.output
    assert "http://127.0.0.1:" in lived.output
    assert "without TLS" in " ".join(lived.stderr.split())
    met = devmind("hello", "--private", "--set", "seconds=0.2", "--set", "page.bind=127.0.0.2")
    assert met.exit_code == 0, met.output
    assert "without TLS" not in met.stderr


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def audit() -> Any:
    """Every file that this process opens for writing during the test, except Python's own caches."""
    written: list[str] = []
    listening = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not listening or event not in ("open", "sqlite3.connect", "os.mkdir", "os.rename"):
            return
        path = str(arguments[0])
        mode, flags = (arguments[1], arguments[2]) if event == "open" else ("w", 0)
        writes = any(letter in (mode or "") for letter in "wax+") or (isinstance(flags, int) and flags & 3)
        caches = ("__pycache__", "/dev/", ".nbi", ".nbc", ":memory:", "numba")
        if writes and not any(part in path for part in caches):
            written.append(path)

    sys.addaudithook(hook)
    yield written
    listening = False


def test_rerun_viewer_shows_a_life_without_a_page(devmind: Any, raised: Path) -> None:
    pytest.importorskip("rerun_cli", reason="needs the extra 'viewer' (make test-system)")
    lived = devmind("live", "--agent", raised, *ROOM, "--set", "seconds=0.5", *UNSHOWN, "--set", "viewer=rerun")
    assert lived.exit_code == 0, lived.output
    assert re.search(r"see it in Rerun: http://127\.0\.0\.1:\d+/\?url=rerun", lived.output)
    assert re.search(r"rerun --connect rerun\+http://127\.0\.0\.1:\d+/proxy", lived.output)
    assert "?token=" not in lived.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--camera", "none", "--mic", "none"), "nothing to sense"),
        ((*ROOM, "--set", "viewer=rerum"), "viewer"),
        ((*ROOM, "--private", "--record", "s.mcap"), "excludes --record and --set learn=true"),
        ((*ROOM, "--private", "--set", "learn=true"), "excludes --record and --set learn=true"),
        ((*ROOM, "--set", "learn=true"), "add --record FILE"),
        (("--camera", "browser", "--mic", "none", *UNSHOWN), "the page; leave --set page.shown=false out"),
        ((*ROOM, "--set", "page.host=192.0.2.1"), "certificate"),
        ((*ROOM, "--set", "page.host=0.0.0.0"), "page.bind=0.0.0.0 listens for a published port"),
        ((*ROOM, "--set", "page.host=192.0.2.1", "--set", "page.bind=0.0.0.0", "--set", "page.port=1"), "certificate"),
        ((*ROOM, "--set", "page.bind=everywhere"), "an address to listen on"),
        ((*ROOM, "--set", f"page.cert={__file__}"), "both page.cert and page.key"),
        ((*ROOM, "--set", "herz=9"), "did you mean 'hz'?"),
        (("--world", "no.mcap"), "There is no file 'no.mcap'"),
        ((*ROOM, "--world", "no.mcap"), "A world or a recording brings its senses: give --world, or --camera"),
        (("--camera", "sythetic_camera=1", "--mic", "none"), "did you mean 'synthetic_camera'"),
    ],
)
def test_invalid_options_give_clear_errors(devmind: Any, raised: Path, words: tuple[str, ...], said: str) -> None:
    refused = devmind("live", "--agent", raised, *words)
    assert refused.exit_code == 2
    assert said in " ".join(f"{refused.exception} {refused.output}".split())


def test_newborn_lives_without_an_agent_and_that_is_printed(devmind: Any, tmp_path: Path) -> None:
    words = (*ROOM, "--set", "seconds=0.3", *UNSHOWN)
    lived = devmind("live", *words, "--record", "a.mcap")
    assert lived.exit_code == 0, lived.output
    assert lived.stderr.count("this is the newborn") == 1
    named = devmind("live", *words, "--agent", "newborn", "--record", "b.mcap")
    assert named.exit_code == 0, named.output
    assert "this is the newborn" not in named.stderr, "who names it knows it"
    weights = [
        [note.data for note in Session(tmp_path / file).notes if note.kind == "weights"]
        for file in ("a.mcap", "b.mcap")
    ]
    assert len(weights[0]) == 1
    assert weights[0] == weights[1]


def test_silent_camera_ends_with_exit_code_1_and_the_reason(devmind: Any, raised: Path) -> None:
    words = ("--camera", "nowhere.mp4", "--mic", "none", "--set", "seconds=0.3")
    for page in ((), UNSHOWN):
        lived = devmind("live", "--agent", raised, *words, *page)
        assert lived.exit_code == 1, lived.output
        assert "camera: There is no camera 'nowhere.mp4'" in lived.stdout
        assert "sight: missing" in lived.output
        assert "Nothing was ever sensed" in lived.stderr


def test_life_runs_with_one_working_sense(devmind: Any, raised: Path) -> None:
    words = ("--camera", "nowhere.mp4", "--mic", "synthetic", "--set", "seconds=0.5", *UNSHOWN)
    lived = devmind("live", "--agent", raised, *words)
    assert lived.exit_code == 0, lived.output
    assert "camera: There is no camera 'nowhere.mp4'" in lived.stdout
    assert "sight: missing" in lived.output


def test_page_shows_why_there_is_no_picture(devmind: Any, raised: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Any] = []
    monkeypatch.setattr(Hub, "watched", True)
    monkeypatch.setattr(Hub, "publish", lambda self, view, *rest: published.append(view))
    words = ("--camera", "/dev/nothing", "--mic", "synthetic", "--set", "seconds=0.5")
    devmind("live", "--agent", raised, *words)
    assert published[-1]["absent"] == {"sight": "There is no camera '/dev/nothing' (/dev/nothing does not exist)."}


def test_life_uses_a_sensor_of_a_plugin(devmind: Any, raised: Path, tmp_path: Path, warm: None) -> None:
    words = ("--sensor", "warmth=0.5", "--camera", "none", "--mic", "none", "--set", "seconds=0.5")
    lived = devmind("live", "--agent", raised, *words, *UNSHOWN, "--record", "w.mcap")
    assert lived.exit_code == 0, lived.output
    recorded = devmind("session", "record", "r.mcap", *words)
    assert recorded.exit_code == 0, recorded.output
    for file in ("w.mcap", "r.mcap"):
        session = Session(tmp_path / file)
        felt = [moment.senses["warmth"] for moment, _ in session if "warmth" in moment.senses]
        assert felt
        assert felt[0].tolist() == [0.5]
        assert session.metadata["sensors"] == "warmth=0.5"


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin's sensor with its own sense, as if its distribution were installed."""
    scan = plugins._scan
    own = {"warmth": plugins.Plugin("sensors", "warmth", f"{__name__}:Warmth", "heat", "1")}
    monkeypatch.setattr(plugins, "_scan", lambda group: scan(group) | (own if group == "sensors" else {}))


class Warmth:
    """One number, `level`, at every reading."""

    sense, name, drops = "warmth", "warmth", 0
    space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, level: str) -> None:
        self.level = float(level)

    def __enter__(self) -> Warmth:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The level, now."""
        return np.array([self.level], np.float32), time.monotonic()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sensor", "synthetic_camera", "--camera", "0"), "both give sight"),
        (("--sensor", "speaker"), "it acts"),
        (("--sensor", "environment=http://me:secret@127.0.0.1/x"), "leave one out"),
        (("--sensor", "synthetic_camra"), "did you mean 'synthetic_camera'"),
    ],
)
def test_unfitting_sensor_gives_a_clear_error(devmind: Any, words: tuple[str, ...], said: str) -> None:
    for command in (("live",), ("session", "record", "x.mcap")):
        refused = devmind(*command, *words)
        assert refused.exit_code == 2
        assert said in f"{refused.exception} {refused.output}"
        assert "secret" not in refused.output


def test_named_sensor_replaces_the_default_camera() -> None:
    asked = doors(None, "none", ["synthetic_camera=0.2"])
    assert list(asked.sensors) == ["synthetic_camera"]
    assert asked.details == {"camera": "none", "microphone": "none", "sensors": "synthetic_camera=0.2"}


def test_watch_shows_a_run(devmind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    refused = devmind("watch", "run")
    assert (refused.exit_code, "no journal.jsonl" in refused.output) == (2, True)
    (tmp_path / "run" / "journal.jsonl").touch()
    run = Watching.run
    monkeypatch.setattr(Watching, "run", lambda self: run(self, 0.1))
    watched = devmind("watch", "run")
    assert watched.exit_code == 0, watched.output
    assert "token=" in watched.output


def test_check_finds_the_newborn_of_a_recording(devmind: Any, tmp_path: Path) -> None:
    words = ("live", "--agent", FOLDER, *ROOM, "--set", "seconds=0.3", *UNSHOWN, "--record", "n.mcap")
    assert devmind(*words).exit_code == 0
    assert not check_replay([tmp_path / "n.mcap"]).passed, "its weights are not kept beside the recording"
    assert devmind("session", "replay", "--check", "n.mcap").exit_code == 0
