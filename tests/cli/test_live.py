"""`devmind live`, `hello` and `watch`: told or shown, recorded when asked for, sentences for what cannot be."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from devmind.cli.live import _Teller
from devmind.live.checking import check_replay
from devmind.live.newborn import FOLDER
from devmind.moment import Moment
from devmind.sessions.reader import Session
from devmind.testing import short_session, tiny_agent
from stages.reflex import parts

ROOM = ("--camera", "synthetic", "--mic", "synthetic")


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    agent = tiny_agent()
    parts.admit(agent)
    folder = tmp_path_factory.mktemp("raised") / "agent"
    agent.save_pretrained(folder)
    return folder


def test_a_second_of_life_is_told_and_recorded_for_its_owner_only(devmind: Any, raised: Path, tmp_path: Path) -> None:
    words = ("live", "--agent", raised, *ROOM, "--seconds", 0.5, "--no-page")
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


def test_a_fault_of_memory_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    life: Any = SimpleNamespace(naming=SimpleNamespace(fault=""), recalling=SimpleNamespace(fault=""))
    teller = _Teller(life)
    for second, fault in enumerate(("", "the disk is full.", "the disk is full.", "it is damaged.", "", "")):
        life.recalling.fault = fault
        action = SimpleNamespace(effectors={})
        teller(SimpleNamespace(moment=Moment(float(second), {}), action=action, work_s=0.0))
    told = capsys.readouterr()
    assert told.err == "Note: the disk is full.\nNote: it is damaged.\nNote: memory is well again.\n"
    assert len(told.out.splitlines()) == 6


def test_a_session_is_lived_in_again(devmind: Any, raised: Path, tmp_path: Path) -> None:
    short_session(tmp_path / "tape.mcap")
    lived = devmind(
        "live", "--agent", raised, "--demo", "tape.mcap", "--seconds", 0.4, "--no-page", "--record", "d.mcap"
    )
    assert lived.exit_code == 0, lived.output
    tape, again = Session(tmp_path / "tape.mcap"), Session(tmp_path / "d.mcap")
    shown = {moment.senses["sight"].tobytes() for moment, _ in again if "sight" in moment.senses}
    assert shown
    assert again.metadata["demo"] == "tape.mcap"
    assert len(tape) > 0


def test_the_page_opens_once_and_the_newborn_needs_no_agent(devmind: Any, tmp_path: Path) -> None:
    lived = devmind("hello", "--seconds", 0.3, "--no-open")
    assert lived.exit_code == 0, lived.output
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", lived.output)
    assert "sight: missing in" in lived.output, "nobody opened the page"
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


def test_a_private_life_writes_nothing(devmind: Any, raised: Path, tmp_path: Path, audit: list[str]) -> None:
    lived = devmind("live", "--agent", raised, *ROOM, "--seconds", 0.5, "--private")
    assert lived.exit_code == 0, lived.output
    assert audit == []
    assert list(tmp_path.rglob("*")) == []
    devmind("live", "--agent", raised, *ROOM, "--seconds", 0.2, "--record", "s.mcap", "--no-page")
    assert [path for path in audit if path.endswith("s.mcap")], "the audit sees what is written"


@pytest.fixture
def audit() -> Any:
    """Every file that this process opens for writing while the test runs, Python's own caches apart."""
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


def test_rerun_shows_a_life_without_a_page(devmind: Any, raised: Path) -> None:
    pytest.importorskip("rerun_cli", reason="needs the extra 'viewer' (make test-system)")
    lived = devmind("live", "--agent", raised, *ROOM, "--seconds", 0.5, "--no-page", "--viewer", "rerun")
    assert lived.exit_code == 0, lived.output
    assert re.search(r"see it in Rerun: http://127\.0\.0\.1:\d+/\?url=rerun", lived.output)
    assert re.search(r"rerun --connect rerun\+http://127\.0\.0\.1:\d+/proxy", lived.output)
    assert "?token=" not in lived.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--camera", "none", "--mic", "none"), "nothing to sense"),
        ((*ROOM, "--viewer", "rerum"), "did you mean 'rerun'?"),
        ((*ROOM, "--private", "--record", "s.mcap"), "excludes --record and --learn"),
        ((*ROOM, "--private", "--learn"), "excludes --record and --learn"),
        ((*ROOM, "--learn"), "add --record FILE"),
        (("--camera", "browser", "--mic", "none", "--no-page"), "need the page"),
        ((*ROOM, "--host", "192.0.2.1"), "certificate"),
        ((*ROOM, "--cert", "c.pem"), "both --cert and --key"),
        ((*ROOM, "--set", "herz=9"), "did you mean 'hz'?"),
        ((*ROOM, "--demo", "no.mcap"), "There is no file 'no.mcap'"),
        (("--camera", "sythetic_camera=1", "--mic", "none"), "did you mean 'synthetic_camera'"),
    ],
)
def test_what_cannot_be_is_a_sentence(devmind: Any, raised: Path, words: tuple[str, ...], said: str) -> None:
    refused = devmind("live", "--agent", raised, *words)
    assert refused.exit_code == 2
    assert said in " ".join(f"{refused.exception} {refused.output}".split())


def test_without_an_agent_a_sentence_says_where_one_is_to_be_had(devmind: Any) -> None:
    refused = devmind("live", *ROOM)
    assert refused.exit_code == 2
    assert "devmind hello" in f"{refused.exception} {refused.output}"


def test_a_camera_that_does_not_answer_is_a_missing_sense(devmind: Any, raised: Path) -> None:
    words = ("--camera", "nowhere.mp4", "--mic", "none", "--seconds", 0.1, "--no-page")
    lived = devmind("live", "--agent", raised, *words)
    assert lived.exit_code == 0, lived.output
    assert "sight: missing" in lived.output


def test_a_run_can_be_watched(devmind: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    refused = devmind("watch", "run", "--seconds", 0.1, "--no-open")
    assert (refused.exit_code, "no journal.jsonl" in refused.output) == (2, True)
    (tmp_path / "run" / "journal.jsonl").touch()
    watched = devmind("watch", "run", "--seconds", 0.1, "--no-open")
    assert watched.exit_code == 0, watched.output
    assert "token=" in watched.output


def test_a_recorded_newborn_is_found_for_the_check_without_being_named(devmind: Any, tmp_path: Path) -> None:
    words = ("live", "--agent", FOLDER, *ROOM, "--seconds", 0.3, "--no-page", "--record", "n.mcap")
    assert devmind(*words).exit_code == 0
    assert not check_replay([tmp_path / "n.mcap"]).passed, "its weights are not kept beside the recording"
    assert devmind("session", "replay", "--check", "n.mcap").exit_code == 0
