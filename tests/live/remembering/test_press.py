"""One press of the button: the thing shown before it is kept with its views and scene in one entry; and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.acting.recall import payload
from devmind.agent.agent import Agent
from devmind.errors import StoreError
from devmind.live.remembering.held_object import Square
from devmind.live.remembering.press import KEPT_VIEWS, Holding, turns
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.memory.entry import BEFORE, LOOKED, VIEWS
from devmind.memory.portable import export_memory, import_memory
from devmind.moment import Moment, Sense
from devmind.testing import tiny_agent
from tests.live.remembering.test_held_object import scene, with_thing


@pytest.fixture
def agent() -> Agent:
    born = tiny_agent()
    born.add_encoder("sight")
    return born.eval()


def empty_room(ticks: int = 40) -> Holding:
    holding = Holding()
    for tick in range(ticks):
        holding.see(scene(tick), tick / 10)
    return holding


def pressed(ticks: int, frame: Callable[[int], np.ndarray] = lambda tick: with_thing(tick, 80, 50)) -> Holding:
    """A room in which a thing was held up for some ticks before the press, and `ticks` during it."""
    holding = empty_room()
    for tick in range(40, 48):
        holding.see(frame(tick), tick / 10)
    holding.begin()
    for tick in range(48, 48 + ticks):
        holding.see(frame(tick), tick / 10)
    return holding


def test_press_keeps_what_was_shown_before_it() -> None:
    holding = pressed(10)
    shown = holding.preview
    kept = holding.take()
    assert shown is not None
    assert np.array_equal(kept["sight"], shown)
    assert any(np.array_equal(kept["sight"], view) for view in kept[VIEWS])
    assert kept["sight"][32, 32, 0] > 200, "the red thing"
    assert kept["sight"][32, 32, 1] < 60


def slow_press(rate_hz: float) -> Holding:
    """A thing held up before a camera of few frames, in ticks of ten a second, and a press until nothing is left."""
    holding, frames, tick, is_shown = Holding(), 0, 0, False

    def live(until: Callable[[], bool]) -> None:
        nonlocal frames, tick
        while not until():
            is_frame = tick >= round(frames * 10 / rate_hz)
            frames += is_frame
            picture = with_thing(tick, 80, 50) if is_shown else scene(tick)
            holding.see(picture if is_frame else None, tick / 10)
            tick += 1

    live(lambda: frames >= 8 and tick >= 30)
    is_shown, before = True, frames
    live(lambda: frames == before + 3)
    holding.begin()
    live(lambda: holding.left_s == 0)
    return holding


@pytest.mark.parametrize("rate_hz", [10, 2, 1, 0.7])
def test_press_on_a_slow_machine_lasts_until_it_has_pictures(rate_hz: float) -> None:
    """At one frame a second a press of a second held one picture at most, and none where it fell between two."""
    kept = slow_press(rate_hz).take()
    assert len(kept[VIEWS]) >= 2
    assert kept["sight"][32, 32, 0] > 200, "the red thing"


def test_press_without_a_picture_says_that_the_computer_is_busy() -> None:
    holding = slow_press(0.5)
    holding.end()
    holding.begin()
    with pytest.raises(StoreError, match="too busy"):
        holding.take()


def test_picture_of_a_held_thing_stays_in_ticks_without_a_frame() -> None:
    """Else its name came and went with every frame of a slow camera."""
    holding = pressed(10)
    crop = holding.crop
    holding.see(None, 5.8)
    assert crop is not None
    assert holding.crop is crop
    holding.see(None, 7.0)
    assert holding.square is None
    assert holding.crop is None
    assert not holding.sees


def test_held_thing_is_present_without_a_press_until_put_down() -> None:
    assert empty_room().recent(None) is None
    holding = pressed(10)
    holding.end()
    shown = holding.recent(with_thing(58, 80, 50))
    assert shown is not None
    kept = shown.payload()
    assert np.array_equal(kept["sight"], shown.picture())
    assert len(kept[VIEWS]) == KEPT_VIEWS
    assert all(view[32, 32, 0] > 200 and view[32, 32, 1] < 60 for view in kept[VIEWS]), "the red thing"
    red = (kept[BEFORE][..., 0] > 200) & (kept[BEFORE][..., 1] < 60)
    assert not red.any()
    for tick in range(58, 70):
        holding.see(scene(tick), tick / 10)
    assert holding.recent(scene(70)) is None


def test_look_shows_the_thing_centred_and_in_the_size_of_lessons() -> None:
    kept = pressed(10).take()
    red = (kept[LOOKED][..., 0] > 200) & (kept[LOOKED][..., 1] < 60)
    rows, columns = np.nonzero(red)
    assert abs(rows.mean() - 32) < 6
    assert abs(columns.mean() - 32) < 6
    wide = columns.max() - columns.min() + 1
    assert 8 <= wide <= 24
    crop = (kept["sight"][..., 0] > 200) & (kept["sight"][..., 1] < 60)
    assert crop.sum() > 2 * red.sum()
    assert Square(0.5, 0.5, 0.2).looked_at(480, 640).side == pytest.approx(0.7)
    assert Square(0.5, 0.5, 0.5).looked_at(480, 640).side == 0.75, "no wider than the picture is high"
    assert Square(0.5, 0.5, 0.9).looked_at(480, 640).side == 0.9


def test_press_keeps_the_earlier_scene_without_the_thing() -> None:
    before = pressed(10).take()[BEFORE]
    assert before.dtype == np.uint8
    assert before.shape[1:] == (64, 64, 3)
    red = (before[..., 0] > 200) & (before[..., 1] < 60)
    assert not red.any()
    room = Holding()
    own = pressed(10).square
    assert own is not None
    room.see(scene(30), 0.0)
    assert np.abs(before[0].astype(float) - own.crop(scene(30))).mean() < 8, "the first one is of its own place"


def test_longer_press_gives_more_pictures_up_to_a_limit_of_views() -> None:
    short, long = pressed(10), pressed(40)
    assert (short.frames, long.frames) == (10, 40)
    assert len(short.take()[VIEWS]) == len(long.take()[VIEWS]) == KEPT_VIEWS
    assert pressed(4).left_s == pytest.approx(0.6)
    assert pressed(10).left_s == 0
    assert pressed(150).frames in (99, 100), "a finger that forgets the button"


def test_press_without_a_thing_gives_a_clear_error() -> None:
    with pytest.raises(StoreError, match="Nothing new is in view: hold the thing up"):
        pressed(10, scene).take()


def test_permanent_thing_of_the_scene_is_no_held_thing() -> None:
    holding = Holding()
    for tick in range(60):
        holding.see(with_thing(tick, 80, 50), tick / 10)
    holding.begin()
    for tick in range(60, 70):
        holding.see(with_thing(tick, 80, 50), tick / 10)
    with pytest.raises(StoreError, match="Nothing new is in view"):
        holding.take()


@pytest.mark.parametrize(
    ("still", "why"), [(0, "nothing was held up: hold it still"), (4, r"it was held up in only [1-4] of 10 pictures")]
)
def test_waved_thing_gives_a_clear_error(still: int, why: str) -> None:
    places = [(30, 30), (130, 80), (30, 90), (130, 30)]
    with pytest.raises(StoreError, match=f"Something moved, but {why}"):
        pressed(10, lambda tick: with_thing(tick, *((80, 50) if tick % 10 < still else places[tick % 4]))).take()


def test_missing_camera_gives_a_clear_error() -> None:
    holding = Holding()
    holding.begin()
    for tick in range(10):
        holding.see(None, tick / 10)
    with pytest.raises(StoreError, match="The camera gives no picture"):
        holding.take()


def test_cancelled_press_keeps_nothing_and_the_next_one_begins_anew() -> None:
    holding = pressed(10)
    holding.end()
    assert holding.frames is None
    holding.begin()
    assert holding.frames == 0


def test_turns_hold_the_view_and_similar_ones() -> None:
    views = pressed(10).take()[VIEWS]
    varied = turns(views)
    assert len(varied) == 7 * len(views)
    assert np.array_equal(varied[0], views[0])
    assert all(picture.shape == (64, 64, 3) and picture.dtype == np.uint8 for picture in varied)
    assert all(0 < np.abs(picture.astype(float) - views[0]).mean() < 60 for picture in varied[1:7])


def test_press_names_the_thing_in_another_place_and_not_the_scene(agent: Agent) -> None:
    child = ShowAndTell(agent, Memory(open_store(None)))
    child.teach("brick", Moment(0.0, dict(pressed(10).take())))
    blue = lambda tick: with_thing(tick, 80, 50)[..., ::-1].copy()  # noqa: E731
    child.teach("sky", Moment(0.0, dict(pressed(10, blue).take())))
    elsewhere = empty_room()
    for tick in range(40, 50):
        elsewhere.see(with_thing(tick, 40, 60, side=44), tick / 10)
    assert elsewhere.crop is not None
    answer = child.ask(Moment(0.0, {"sight": elsewhere.crop}))["sight"]
    assert answer.nearest == "brick"
    assert answer.shares.keys() == {"brick", "sky"}
    assert answer.shares["brick"] == answer.confidence
    assert 0 <= sum(answer.shares.values()) <= 1 + 1e-9
    sleeve = np.full((64, 64, 3), 90, np.uint8)
    alone = child.ask(Moment(0.0, {"sight": sleeve}))["sight"]
    assert alone.confidence < answer.confidence
    both = child.ask(Moment(0.0, {"sight": sleeve}), above=elsewhere.crop)["sight"]
    assert both == answer, "where only an arm was found, the thing is above it"
    assert child.ask(Moment(0.0, {"sight": elsewhere.crop}), above=sleeve)["sight"] == answer


def test_region_above_a_held_thing_is_also_looked_at(agent: Agent) -> None:
    holding = pressed(10)
    square, frame = holding.square, with_thing(20, 80, 50)
    assert square is not None
    above = square.above(*frame.shape[:2])
    assert (above.x, above.side) == (square.x, square.side)
    assert above.y < square.y
    assert holding.above is not None
    assert holding.above.shape == (64, 64, 3)
    assert Square(0.5, 0.12, 0.4).above(120, 160).y == 0.1, "never beyond the picture's edge"
    holding.see(None, 30.0)
    assert holding.above is None
    assert holding.crop is None


def test_earlier_scene_counts_as_a_stranger_to_the_name(agent: Agent) -> None:
    """In the empty scene, the answer at the thing's place is less probable if the scene was kept."""
    kept = dict(pressed(10).take())
    empty = kept[BEFORE][0]
    likely = []
    for shown in (kept, {sense: value for sense, value in kept.items() if sense != BEFORE}):
        child = ShowAndTell(agent, Memory(open_store(None)))
        child.teach("brick", Moment(0.0, shown))
        likely.append(child.ask(Moment(0.0, {"sight": empty}))["sight"].confidence)
    assert likely[0] < likely[1]


def test_one_entry_holds_the_press_and_forgetting_removes_all_of_it(agent: Agent) -> None:
    memory = Memory(open_store(None))
    child = ShowAndTell(agent, memory)
    entry = child.teach("brick", Moment(0.0, dict(pressed(10).take())))
    child.teach("brick", Moment(0.0, {"sight": scene()}))
    assert child.names.known() == {"brick": 2}, "a press counts once"
    [stored] = memory.get([entry.id])
    assert stored.senses.keys() == {"sight", LOOKED, VIEWS, BEFORE}
    seen = child.describe({"sight": stored.senses[LOOKED]})["sight"].vector
    assert np.array_equal(stored.keys["sight"].vector, seen), "it is searched by what is seen by who looks at the thing"
    assert payload(stored).keys() == {"sight", "words"}
    assert payload(stored)["sight"] is stored.senses[LOOKED], "and comes back as that"
    assert stored.keys.keys() == {"sight", BEFORE}
    assert child.forget("brick") == 2
    assert len(memory.store.facts()) == 0
    assert child.ask(Moment(0.0, {"sight": scene()})) == {}, "no scene is left to say 'unknown' against nothing"


def test_press_is_copied_whole_to_another_memory(agent: Agent, tmp_path: Path) -> None:
    child = ShowAndTell(agent, Memory(open_store(None)))
    child.teach("brick", Moment(0.0, dict(pressed(10).take())))
    export_memory(child.memory.store, tmp_path / "m.zip", tmp_path)
    other = ShowAndTell(agent, Memory(open_store(None)))
    assert import_memory(other.memory.store, tmp_path / "m.zip").added == 1
    asked = Moment(0.0, {"sight": with_thing(1, 80, 50)[18:82, 48:112].copy()})
    assert other.ask(asked) == child.ask(asked)
    assert other.rebuilt == 0


def test_other_weights_describe_the_press_again(agent: Agent) -> None:
    child = ShowAndTell(agent, Memory(open_store(None)))
    payload: dict[str, Sense] = dict(pressed(10).take())
    entry = child.teach("brick", Moment(0.0, payload))
    with torch.no_grad():
        for parameter in agent.encoder("sight").parameters():
            parameter.mul_(1.3)
    assert child.refresh(agent) == 1
    [now] = child.memory.get([entry.id])
    fresh = ShowAndTell(agent, Memory(open_store(None))).teach("brick", Moment(0.0, payload))
    for sense in ("sight", BEFORE):
        features, wanted = now.keys[sense].features, fresh.keys[sense].features
        assert features is not None
        assert wanted is not None
        np.testing.assert_allclose(features, wanted, rtol=1e-5)
        assert now.keys[sense].encoder != entry.keys[sense].encoder
    assert child.ask(Moment(0.0, {"sight": payload["sight"]}))["sight"].nearest == "brick"
