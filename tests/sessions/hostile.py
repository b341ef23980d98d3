"""Property tests of readers of foreign bytes with hypothesis: they may raise nothing but DevmindError. See `make
attack`.

Each reader has a corpus of valid inputs, made once. A case is one of them with bytes flipped, cut, repeated or
inserted, a value nested or a digit repeated many times, or a text of its format with invalid values. `DOORS` names the
readers of each module that opens files or parses texts by `devmind.bounds`; `test_layers.py` holds it complete.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from devmind.errors import DevmindError
from devmind.moment import Action, Moment
from tests.report.conftest import fake_results
from tests.sessions import hostile_folders as folders

Reader = Callable[[bytes, Path], object]

WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([2**70, -1, 1e308]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
"""What JSON can hold."""


def recording(folder: Path) -> bytes:
    """A small recording with every kind of sense."""
    from devmind.sessions.recorder import Recorder

    path = folder / "corpus.mcap"
    with Recorder(path, source="test", tick_hz=10, overwrite=True) as recorder:
        for number in range(4):
            recorder.note("number", number)
            senses: dict[str, Any] = {"words": f"said {number}", "body": np.arange(3, dtype=np.float32)}
            senses["sound"] = np.zeros((1, 1600), np.float32)
            recorder.write(Moment(number / 10, senses, first=not number), Action({"look": np.zeros(2, np.float32)}))
            recorder.flush()
    return path.read_bytes()


def memory(folder: Path) -> bytes:
    """An exported memory."""
    from devmind.memory import open_store
    from devmind.memory.portable import export_memory
    from devmind.testing.stores import example

    with open_store(None) as store:
        store.add([example(number, "a") for number in range(3)])
        export_memory(store, folder / "corpus.zip", folder)
    return (folder / "corpus.zip").read_bytes()


def read_recording(data: bytes, folder: Path) -> object:
    """info, replay and repair of a recording."""
    from devmind.sessions import describe, repair
    from devmind.sessions.reader import Session

    path = folder / "case.mcap"
    path.write_bytes(data)
    try:
        describe(path)
        return [step for step, _ in Session(path)]
    finally:
        repair(path, folder / "mended.mcap", overwrite=True)


def read_foreign(data: bytes, folder: Path) -> object:
    """Import as an MCAP file of another program."""
    from devmind.sessions.bags import import_mcap

    path = folder / "case.mcap"
    path.write_bytes(data)
    return import_mcap(path, folder / "made.mcap", overwrite=True)


def read_memory(data: bytes, folder: Path) -> object:
    """Import into a store in RAM, which must stay usable."""
    from devmind.memory import Memory, open_store
    from devmind.memory.portable import import_memory
    from devmind.memory.stats import statistics

    path = folder / "case.zip"
    path.write_bytes(data)
    with open_store(None) as store:
        try:
            return import_memory(store, path)
        finally:
            statistics(Memory(store))


def read_payload(data: bytes, _: Path) -> object:
    """Unpack a payload."""
    from devmind.memory.payload import unpack

    return unpack(data)


def read_results(data: bytes, folder: Path) -> object:
    """Read results.json as reports do."""
    from devmind.report.results import load

    path = folder / "results.json"
    path.write_bytes(data)
    return load(path)


def read_study(data: bytes, folder: Path) -> object:
    """Read a study."""
    from devmind.curriculum.study.file import load_study

    path = folder / "study.yaml"
    path.write_bytes(data)
    return load_study(path)


def study(_: Path) -> bytes:
    """A study of two arms, as devmind brings one."""
    found = sorted((Path(__file__).parents[2] / "configs/studies").glob("*.yaml"))
    return found[0].read_bytes()


def read_prices(data: bytes, folder: Path) -> object:
    """Read a table of prices; what is accepted gives finite returns."""
    from devmind.worlds.ohlcv import read_closes

    path = folder / "prices.csv"
    path.write_bytes(data)
    closes = read_closes(path)
    assert np.isfinite(np.diff(np.log(closes))).all()
    return closes


def prices(_: Path) -> bytes:
    """Bars of an hour."""
    rows = (f"{3600 * n},{100 + n},{101 + n},{99 + n},{100 + n},{n}" for n in range(40))
    return "\n".join(("time,open,high,low,close,volume", *rows, "")).encode()


def read_vocabulary(data: bytes, folder: Path) -> object:
    """Read a tokenizer file; only what has our structure may reach the library."""
    from devmind.agent.vocabulary import read_vocabulary

    path = folder / "tokenizer.json"
    path.write_bytes(data)
    return read_vocabulary(path)


def vocabulary(_: Path) -> bytes:
    """A small vocabulary of bytes and merges."""
    from devmind.agent.vocabulary import make_vocabulary

    return make_vocabulary("the cat sat on the mat, the cat sat", 265).encode()


def read_plan(data: bytes, folder: Path) -> object:
    """Read a plan file."""
    from stages.reasoning.procedures.parser import read_file

    path = folder / "case.plans"
    path.write_bytes(data)
    return read_file(path)


def plan(_: Path) -> bytes:
    """One of the plan files that come with devmind."""
    from stages.reasoning import procedures

    found = sorted(Path(procedures.__file__).parent.rglob("*.plan*"))
    return found[0].read_bytes()


def read_text_file(data: bytes, folder: Path) -> object:
    """Read a text to learn from, and files of positions and puzzles."""
    from stages.language.read.corpus import read_text

    path = folder / "text.txt"
    path.write_bytes(data)
    return read_text(path)


def read_positions(data: bytes, folder: Path) -> object:
    """Read a file of judged positions."""
    from stages.reasoning.connect4.positions import load_positions

    path = folder / "positions.tsv"
    path.write_bytes(data)
    return load_positions(path, 20)


def read_puzzles(data: bytes, folder: Path) -> object:
    """Read a file of 15-puzzles."""
    from stages.reasoning.sliding.exam import read_boards

    path = folder / "puzzles.tsv"
    path.write_bytes(data)
    return read_boards(path, 20)


def read_numbers(data: bytes, _: Path) -> object:
    """Read a message of a sensor of numbers, which refuses by ValueError."""
    from sensors.environment import parse_numbers

    try:
        return parse_numbers(data.decode("utf-8", "replace"))
    except ValueError:
        return None


def read_journal(data: bytes, folder: Path) -> object:
    """Read a run's journal."""
    from devmind.curriculum.journal import Journal

    path = folder / "journal.jsonl"
    path.write_bytes(data)
    return list(Journal(path).events())


def journal(folder: Path) -> bytes:
    """Two events."""
    from devmind.curriculum.journal import Journal

    (folder / "made.jsonl").unlink(missing_ok=True)
    made = Journal(folder / "made.jsonl")
    made.write("begun", seed=0)
    made.write("finished", agent="agent")
    return (folder / "made.jsonl").read_bytes()


def read_saved(data: bytes, folder: Path) -> object:
    """Read the manifest of a generation, and the config of a milestone."""
    from devmind.checkpointing import generations, milestones
    from devmind.errors import DevmindError

    for name in (generations.MANIFEST, "config.json"):
        (folder / name).write_bytes(data)
    for read in (generations.read_manifest, lambda home: milestones._config(home / "config.json")):
        try:
            read(folder)
        except DevmindError:
            continue
    return None


def read_yaml(data: bytes, folder: Path) -> object:
    """Read a configuration as --config and --set do."""
    from devmind.config import LIVE, LiveConfig, load_as

    return load_as(LiveConfig, LIVE, {}, [data.decode("utf-8", "replace").replace("\0", "")])


def read_websocket(data: bytes, _: Path) -> object:
    """Read a page's messages, text and bytes."""
    from devmind.live.serving.conversation import MalformedError, read_command, read_device_message

    for read in (lambda: read_command(data.decode("utf-8", "replace")), lambda: read_device_message(data)):
        try:
            read()
        except MalformedError:
            continue
    return None


def read_dataset(data: bytes, folder: Path) -> object:
    """Import a LeRobotDataset with this info.json."""
    from devmind.sessions.lerobot import import_lerobot

    (folder / "set/meta").mkdir(parents=True, exist_ok=True)
    (folder / "set/meta/info.json").write_bytes(data)
    return import_lerobot(folder / "set", folder / "made.mcap", overwrite=True)


def read_picture(data: bytes, _: Path) -> object:
    """Decode a picture file."""
    from devmind.sessions.pictures import decode_picture

    return decode_picture(data, "case")


def read_rebuilt(data: bytes, folder: Path) -> object:
    """Import a memory file with a valid archive and this one entry."""
    from devmind.memory.payload import pack

    inside = {"about": data.decode("utf-8", "replace"), "payload": np.frombuffer(pack({"words": "x"}), np.uint8)}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("entries/000000000001.zst", pack(inside))
        archive.writestr("memory.json", json.dumps({"format": "devmind.memory/1", "entries": 1}))
    return read_memory(made.getvalue(), folder)


ABOUT = {
    "time_s": 1.0, "importance": 0.5, "name": "cup", "recalled": 0, "recalled_s": None, "pointer": None, "encoders": {},
}  # fmt: skip
INFO = {
    "codebase_version": "v3.0", "fps": 10, "data_path": "data/{chunk_index:03d}.parquet", "video_path": None,
    "features": {"observation.state": {"dtype": "float32", "shape": [2], "names": ["a", "b"]}},
}  # fmt: skip


def png(_: Path) -> bytes:
    """A small picture."""
    import cv2

    return bytes(cv2.imencode(".png", np.zeros((9, 9, 4), np.uint8))[1])


def payload(_: Path) -> bytes:
    """Packed senses."""
    from devmind.memory.payload import pack

    return pack({"words": "x", "body": np.arange(3, dtype=np.float32)})


ROWS, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
READERS: dict[str, tuple[Reader, Callable[[Path], bytes]]] = {
    "recording": (read_recording, recording),
    "mcap": (read_foreign, recording),
    "memory": (read_memory, memory),
    "entry": (read_rebuilt, lambda _: json.dumps(ABOUT).encode()),
    "payload": (read_payload, payload),
    "spool": (folders.read_spool, folders.spool),
    "dataset": (read_dataset, lambda _: json.dumps(INFO).encode()),
    "results": (read_results, lambda _: json.dumps(fake_results()).encode()),
    "study": (read_study, study),
    "prices": (read_prices, prices),
    "vocabulary": (read_vocabulary, vocabulary),
    "plan": (read_plan, plan),
    "text": (read_text_file, lambda _: b"The cat sat on the mat. " * 500),
    "positions": (read_positions, lambda _: b"4455\t2\t-2,1,x,0,1,-1,3\n" * 3),
    "puzzles": (read_puzzles, lambda _: b"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0\t30\n" * 3),
    "numbers": (read_numbers, lambda _: b'{"temperature": 21.5, "humidity": 40}'),
    "journal": (read_journal, journal),
    "saved": (read_saved, lambda _: b'{"format": 1, "number": 3, "state": {"a": [1]}, "files": {}}'),
    "yaml": (read_yaml, lambda _: b"memory.novelty=0.5"),
    "websocket": (read_websocket, lambda _: b'{"id": 1, "do": "teach", "with": {"name": "cup"}}'),
    "picture": (read_picture, png),
    "ros1 bag": (folders.read_bag("case.bag"), folders.bag("case.bag")),
    "ros2 bag": (folders.read_bag("folder.db3"), folders.bag("folder.db3")),
    "ros2 metadata": (folders.read_bag("metadata.yaml"), folders.bag("metadata.yaml")),
    "lerobot rows": (folders.read_dataset(ROWS), folders.dataset(ROWS)),
    "lerobot episodes": (folders.read_dataset(EPISODES), folders.dataset(EPISODES)),
    "lerobot info": (folders.read_dataset("meta/info.json"), folders.dataset("meta/info.json")),
    "agent config": (folders.read_agent("config.json"), folders.agent("config.json")),
    "agent weights": (folders.read_agent("model.safetensors"), folders.agent("model.safetensors")),
    "agent checksums": (folders.read_agent("checksums.json"), folders.agent("checksums.json")),
    "agent confidence": (folders.read_agent("confidence.safetensors"), folders.agent("confidence.safetensors")),
    "agent results": (folders.read_agent("results.json"), folders.agent("results.json")),
}


DOORS: dict[str, tuple[str, ...]] = {
    "devmind.acting.standing": ("agent results",),
    "devmind.agent.saving": ("agent config", "agent weights", "agent checksums"),
    "devmind.agent.vocabulary": ("vocabulary",),
    "devmind.checkpointing.generations": ("saved",),
    "devmind.checkpointing.milestones": ("saved",),
    "devmind.config": ("yaml", "study"),
    "devmind.curriculum.journal": ("journal",),
    "devmind.curriculum.start": ("vocabulary",),
    "devmind.curriculum.study.file": ("study",),
    "devmind.feed.client": ("spool",),
    "devmind.feed.server": ("spool",),
    "devmind.feed.spool": ("spool",),
    "devmind.live.serving.conversation": ("websocket",),
    "devmind.live.serving.guard": ("websocket",),
    "devmind.memory.payload": ("payload",),
    "devmind.memory.portable": ("memory", "entry"),
    "devmind.report.results": ("results",),
    "devmind.sessions.extras": ("recording",),
    "devmind.sessions.lerobot.reading": ("dataset", "lerobot info"),
    "devmind.sessions.pictures": ("picture",),
    "devmind.sessions.metadata": ("recording",),
    "devmind.sessions.salvage": ("recording",),
    "devmind.worlds.ohlcv": ("prices",),
    "sensors.environment": ("numbers",),
    "stages.language.read.corpus": ("text",),
    "stages.reasoning.connect4.positions": ("positions",),
    "stages.reasoning.procedures.parser": ("plan",),
    "stages.reasoning.sliding.exam": ("puzzles",),
}
"""Module that opens files or parses texts -> the readers above that attack it."""
OWN = frozenset(
    {
        "devmind.algorithms.diffusion.pipeline", "devmind.checkpointing.engine", "devmind.checkpointing.writer",
        "devmind.curriculum.ranks", "devmind.cli.doctor", "devmind.cli.here", "devmind.cli.stage",
        "devmind.curriculum.ablation", "devmind.curriculum.childhood", "devmind.curriculum.sleep",
        "devmind.curriculum.study.gathering", "devmind.curriculum.study.run", "devmind.datasets.arrange",
        "devmind.datasets.fetch", "devmind.live.demonstration", "devmind.live.learning.learner", "devmind.raised",
        "devmind.raised.pack", "devmind.raised.tables",
        "devmind.report.childhood", "stages.language.senses.measured", "stages.voice.caregiver.espeak",
    }
)  # fmt: skip
"""Modules that read only what devmind itself wrote on this machine, brought along, or fetched by a known checksum."""


def without_corpus() -> list[str]:
    """What is wrong with DOORS: modules that read by `devmind.bounds` and are not attacked, and names of nothing."""
    root, found = Path(__file__).parents[2], set[str]()
    for package in ("devmind", "stages", "sensors"):
        for path in (root / package).rglob("*.py"):
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
            called = {ast.unparse(call.func).removeprefix("bounds.") for call in calls}
            if name != "devmind.bounds" and called & {"open_file", "read_text", "parse_json", "parse_yaml"}:
                found.add(name)
            if name != "devmind.bounds" and any("bounds.read_file" in line for line in path.read_text().splitlines()):
                found.add(name)
    faults = [f"{name} reads files or texts and has no corpus in DOORS" for name in sorted(found - DOORS.keys() - OWN)]
    faults += [f"{name} reads nothing by devmind.bounds" for name in sorted((DOORS.keys() | OWN) - found)]
    return faults + [f"there is no reader '{one}'" for names in DOORS.values() for one in names if one not in READERS]


@st.composite
def odd(draw: st.DrawFn, plain: Any) -> Any:
    """JSON with one invalid value at any depth."""
    items = (
        list(plain.items()) if isinstance(plain, dict) else list(enumerate(plain)) if isinstance(plain, list) else []
    )
    if not items or draw(st.integers(0, 3)) == 0:
        return draw(WILD)
    name, value = draw(st.sampled_from(items))
    changed = plain.copy()
    changed[name] = draw(odd(value))
    return changed


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` with some bytes changed or, for JSON, with one invalid value."""
    try:
        plain = json.loads(whole)
    except ValueError:
        plain = None
    if isinstance(plain, dict) and draw(st.booleans()):
        return json.dumps(draw(odd(plain))).encode()
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "cut", "put", "double", "high", "nest", "digits"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + draw(st.integers(1, 200))]
            case "put":
                data[at:at] = draw(st.binary(max_size=40))
            case "double":
                data[at:at] = data[at : at + 60]
            case "nest":
                opens = draw(st.sampled_from([b"[", b'{"a":', b"(", b"not ", b"- ", b"f("]))
                data[at:at] = opens * draw(st.sampled_from([100, 3_000, 100_000]))
            case "digits":
                digits = [place for place, byte in enumerate(data) if byte in b"0123456789"]
                place = draw(st.sampled_from(digits)) if digits else at
                data[place:place] = b"9" * draw(st.sampled_from([20, 400, 5_000]))
            case "high":
                data[at : at + 8] = b"\xff" * draw(st.integers(1, 8))
    return bytes(data)


def attack(name: str, folder: Path, cases: int, slowest_s: float = 10.0) -> int:
    """Run `cases` cases of one reader and return how many were refused; anything but a DevmindError propagates."""
    read, make = READERS[name]
    whole, refused = make(folder), 0

    @settings(
        max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(damaged(whole))
    def case(data: bytes) -> None:
        nonlocal refused
        began_s = time.process_time()
        try:
            read(data, folder)
        except DevmindError:
            refused += 1
        assert time.process_time() - began_s < slowest_s

    case()
    return refused


def main() -> None:
    """Run all readers, each with the given number of cases."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--readers", nargs="*", default=sorted(READERS))
    asked = parser.parse_args()
    if faults := without_corpus():
        parser.error("; ".join(faults))
    for name in asked.readers:
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            refused = attack(name, Path(folder), asked.cases)
        print(f"{name}: {asked.cases} cases, {refused} refused, {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
