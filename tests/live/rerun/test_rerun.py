"""Rerun as a viewer: Rerun's own tools read back what it gets; its server is on loopback only and ends in time.

All tests but the one of the missing extra need the extra `viewer` (`make test-system`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

from devmind.errors import ConfigError
from devmind.live.rerun import viewer
from devmind.live.rerun.viewer import RerunViewer, program
from devmind.live.rerun.views import RerunViews
from devmind.live.serving.hub import Hub, Published
from devmind.live.viewing.drawing import WIDEST_PX, data_url, jpeg
from tests.browsers import chromium

FRAME = np.random.default_rng(0).integers(0, 255, (300, 960, 3)).astype(np.uint8)
needs_rerun = pytest.mark.skipif(
    importlib.util.find_spec("rerun_cli") is None, reason="needs the extra 'viewer' (make test-system)"
)


def a_view(tick: int, **others: Any) -> dict[str, Any]:
    """A tick with a cup in the left half of the fovea."""
    sure = {"confidence": 0.9, "sure": True}
    depth = sure | {"png": data_url(np.full((64, 64, 4), 200, np.uint8)), "near_m": 1.0, "far_m": 3.0}
    view: dict[str, Any] = {"type": "tick", "tick": tick, "time_s": tick / 10, "work_ms": 7.5, "skipped": 2}
    view |= {"fovea": {"x": 0.25, "y": 0.5, "w": 0.1, "h": 0.32}, "arcs": ["look_arc"], "surprise": {"sight": 0.75}}
    view |= {"overlays": {"boxes": sure | {"boxes": [[0.0, 0.0, 0.5, 1.0, 0.8]]}, "depth": depth}}
    view |= {"sound": {"level_db": -20.0 - tick, "direction_deg": None, "mel": [[1.0] + [0.0] * 63] * 4}}
    return view | {"names": {"sight": {"name": "cup", "nearest": "cup", "confidence": 0.9}}} | others


def chunks(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows of a recording by entity, as Rerun's own reader gives them; the timelines are `tick` and `life_s`."""
    from rerun.chunk import RrdReader

    rows: dict[str, list[dict[str, Any]]] = {}
    for chunk in RrdReader(str(file)).stream():
        batch = chunk.to_record_batch()
        for row in range(batch.num_rows if "tick" in batch.schema.names else 0):
            value = {name: batch.column(name)[row] for name in batch.schema.names}
            found = {name.partition(":")[2]: item.as_py() for name, item in value.items() if ":" in name}
            at = {"tick": value["tick"].as_py(), "life_s": value["life"].value / 1e9}
            rows.setdefault(chunk.entity_path, []).append(found | at)
    return {path: sorted(found, key=lambda row: row["tick"]) for path, found in rows.items()}


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., dict[str, list[dict[str, Any]]]]:
    """Log (view, frame) pairs and read them back."""

    def tell(*shown: tuple[dict[str, Any], np.ndarray | None]) -> dict[str, list[dict[str, Any]]]:
        import rerun

        stream = rerun.RecordingStream("devmind")
        memory = stream.memory_recording()
        views = RerunViews(stream)
        for view, frame in shown:
            views.show(Published(view, None, frame))
        file = tmp_path / "told.rrd"
        file.write_bytes(memory.drain_as_bytes())
        subprocess.run([program(), "rrd", "verify", file], check=True, capture_output=True, timeout=60)
        return chunks(file)

    return tell


def cleared(row: dict[str, Any]) -> bool:
    return "is_recursive" in row


@needs_rerun
def test_view_is_recorded_at_its_tick_and_time(told: Any) -> None:
    rows = told((a_view(4), FRAME), (a_view(6, words="hello"), FRAME))
    level = rows["/sound/level_db"]
    assert [(row["tick"], row["life_s"], row["scalars"]) for row in level] == [(4, 0.4, [-24.0]), (6, 0.6, [-26.0])]
    assert [row["scalars"] for row in rows["/loop/work_ms"]] == [[7.5], [7.5]]
    assert rows["/loop/skipped"][0]["scalars"] == [2.0]
    assert rows["/surprise/sight"][0]["scalars"] == [0.75]
    assert bytes(rows["/camera"][0]["blob"][0]) == jpeg(FRAME)
    assert rows["/camera"][0]["media_type"] == ["image/jpeg"]
    assert bytes(rows["/fovea/depth"][0]["blob"][0]).startswith(b"\x89PNG")
    assert "/fovea/masks" not in rows, "what is not sure is not shown"
    texts = {path: [row["text"] for row in rows[path]] for path in rows if path.startswith("/texts")}
    assert texts["/texts/names/sight"] == [["cup"]], "told once, where it changes"
    assert texts["/texts/arcs"] == [["look_arc"]]
    assert texts["/texts/words"] == [["hello"]]
    assert [row["tick"] for row in rows["/texts/words"]] == [6]


@needs_rerun
def test_boxes_match_the_picture_that_was_sent(told: Any) -> None:
    import cv2

    rows = told((a_view(1), FRAME))
    height, width = cv2.imdecode(np.array(rows["/camera"][0]["blob"][0], np.uint8), cv2.IMREAD_COLOR).shape[:2]
    assert (height, width) == (150, WIDEST_PX)
    fovea, things = rows["/camera/fovea"][0], rows["/camera/things"][0]
    np.testing.assert_allclose(fovea["half_sizes"], [[24, 24]], atol=1e-4)
    np.testing.assert_allclose(fovea["centers"], [[120 + 24, 75 + 24]], atol=1e-4)
    np.testing.assert_allclose(things["half_sizes"], [[12, 24]], atol=1e-4)
    np.testing.assert_allclose(things["centers"], [[120 + 12, 75 + 24]], atol=1e-4)


@needs_rerun
def test_outdated_values_are_cleared(told: Any) -> None:
    unsure = a_view(2, overlays={"boxes": {"confidence": 0.1, "sure": False}}, surprise={}, names={}, sound=None)
    rows = told((a_view(1), FRAME), (unsure, FRAME), (a_view(5, fovea=None), None), (a_view(40, fovea=None), None))
    for path in ("/camera/things", "/fovea/depth", "/surprise/sight", "/sound/level_db"):
        assert cleared(rows[path][1]), path
        assert rows[path][1]["tick"] == 2
    assert [row["tick"] for row in rows["/camera"] if cleared(row)] == [40], "a frame late is no blindness yet"
    tones = [np.array(row["blob"][0], np.uint8) for row in rows["/tones"]]
    assert len(tones) == 4, "silence moves on too"


@needs_rerun
def test_spectrogram_has_low_tones_below_and_the_newest_at_the_right(told: Any) -> None:
    import cv2

    rows = told((a_view(1), None))
    tones = cv2.imdecode(np.array(rows["/tones"][0]["blob"][0], np.uint8), cv2.IMREAD_GRAYSCALE)
    assert tones.shape == (64, 240)
    assert tones[-1, -3:].min() > 150
    assert tones[:32].max() < 60
    assert tones[:, :200].max() < 60


@needs_rerun
def test_paused_life_is_shown_as_paused(told: Any) -> None:
    rows = told((a_view(1), FRAME), ({"type": "tick", "paused": True}, None), (a_view(9), FRAME))
    assert [row["text"] for row in rows["/texts/state"]] == [["living"], ["paused"], ["living"]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that a viewer starts, its server first."""
    found: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*args: Any, **named: Any) -> Any:
        found.append(real(*args, **named))
        return found[-1]

    monkeypatch.setattr(viewer.subprocess, "Popen", popen)
    return found


def server_of(started: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    return next(process for process in started if "--serve-web" in process.args)  # type: ignore[operator]


def publish(hub: Hub, ticks: range, pause_s: float = 0.02) -> None:
    for tick in ticks:
        hub.publish(a_view(tick), None, FRAME)
        time.sleep(pause_s)


@needs_rerun
def test_server_is_on_loopback_without_analytics_and_serves_the_views(
    started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    import psutil

    hub, viewer = Hub(), RerunViewer()
    with viewer.watch(hub):
        server = psutil.Process(server_of(started).pid)
        listening = {item.laddr for item in server.net_connections() if item.status == psutil.CONN_LISTEN}
        assert {address.ip for address in listening} == {"127.0.0.1"}
        assert viewer.stream in {f"rerun+http://127.0.0.1:{address.port}/proxy" for address in listening}
        assert "--server-memory-limit" in server.cmdline()
        with urlopen(viewer.address) as page:
            policy, html = page.headers["Content-Security-Policy"], page.read()
        data_port = viewer.stream.split(":")[2].removesuffix("/proxy")
        assert policy.startswith("default-src 'none'")
        assert policy.endswith(f"connect-src 'self' http://127.0.0.1:{data_port}")
        assert b"re_viewer.js" in html
        assert b"https://fonts" not in html
        with pytest.raises(HTTPError, match="404"):
            urlopen(viewer.address.partition("?")[0] + "nothing.txt")
        [settings] = Path(server.environ()["HOME"]).rglob("analytics.json")
        assert json.loads(settings.read_text())["analytics_enabled"] is False
        assert hub.watched
        publish(hub, range(5), 0.2)  # slowly: a picture that is not taken yet is replaced by the next
        got = tmp_path / "got.rrd"
        env = {"HOME": str(settings.parents[1]), "XDG_CONFIG_HOME": str(settings.parents[1])}
        reader = subprocess.Popen([program(), viewer.stream, "--save", got], env=env, stderr=subprocess.DEVNULL)
        tick, give_up_s = 5, time.monotonic() + 60
        while not (got.is_file() and got.stat().st_size):  # a busy machine starts it slowly
            assert time.monotonic() < give_up_s, "the reader writes nothing"
            publish(hub, range(tick, tick + 10), 0.1)
            tick += 10
        publish(hub, range(tick, tick + 20), 0.05)
        reader.terminate()  # a script's background processes ignore Ctrl-C
        reader.wait(60)
        home = settings.parents[2]
    assert not hub.watched
    assert not home.exists()
    assert not server.is_running()
    ticks = [row["tick"] for row in chunks(got)["/camera"]]
    assert {0, 10} <= set(ticks), "who comes late gets what was before"
    assert ticks == sorted(ticks)


@needs_rerun
def test_unresponsive_server_loses_views_but_blocks_neither_loop_nor_end(
    started: list[subprocess.Popen[bytes]],
) -> None:
    hub = Hub()
    with RerunViewer().watch(hub):
        server_of(started).send_signal(signal.SIGSTOP)
        begun_s = time.monotonic()
        for tick in range(200):
            hub.publish(a_view(tick), None, FRAME)
            time.sleep(0.005)
        assert time.monotonic() - begun_s < 10
        assert hub.drops > 100
        ending_s = time.monotonic()
    assert time.monotonic() - ending_s < 30
    assert all(process.poll() is not None for process in started)
    assert "rerun" not in [thread.name for thread in threading.enumerate()]


@needs_rerun
def test_dead_server_leaves_the_hub(started: list[subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture) -> None:
    hub = Hub()
    with RerunViewer().watch(hub):
        server_of(started).kill()
        give_up_s = time.monotonic() + 60
        while hub.watched and time.monotonic() < give_up_s:
            publish(hub, range(1))
        assert not hub.watched, "nothing is computed for nobody"
    assert "the life goes on" in caplog.text


@pytest.mark.slow
@needs_rerun
def test_server_ends_after_devmind_is_killed(tmp_path: Path) -> None:
    import psutil

    code = (
        "import time\nfrom devmind.live.serving.hub import Hub\nfrom devmind.live.rerun.viewer import RerunViewer\n"
        "with RerunViewer().watch(Hub()):\n    print('watching', flush=True)\n    time.sleep(60)\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
    assert parent.stdout
    assert parent.stdout.readline() == "watching\n"
    children = psutil.Process(parent.pid).children()
    assert len(children) == 2
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs(children, 10)
    assert not alive


@pytest.mark.slow
@needs_rerun
def test_page_shows_the_life_and_contacts_no_other_host() -> None:
    """Without the policy it would send four reports to Rerun.io in this time."""
    hub, viewer, asked, said = Hub(), RerunViewer(), [], []
    with viewer.watch(hub), chromium("--use-angle=swiftshader", "--enable-unsafe-swiftshader") as browser:
        publish(hub, range(3))
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        with page.expect_response(lambda response: "ReadMessages" in response.url, timeout=120_000) as reading:
            page.goto(viewer.address)
        assert reading.value.ok
        page.wait_for_timeout(3000)
    assert any("tel.rerun.io" in line and "blocked" in line for line in said), "the browser had something to refuse"
    assert {url.split(":")[1] for url in asked} == {"//127.0.0.1"}, asked


def test_missing_extra_gives_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'devmind\[viewer\]'"):
        RerunViewer()
