"""A game on a page: the page's view, its commands, and play by mouse and keyboard."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.errors import ConfigError
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer
from devmind.testing import tiny_agent
from stages.reasoning import parts
from stages.reasoning.board_page import AGENT, OVER, YOU, TablePage, page_files
from stages.reasoning.games import CONNECT4, GAMES, OTHELLO, TICTACTOE, search
from stages.reasoning.table import Table
from tests.browsers import chromium, complaints_of
from tests.live.serving.test_server import let_in, next_of, talk

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def child() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


class Shown:
    """Keeps the published views."""

    def __init__(self) -> None:
        self.views: list[dict[str, Any]] = []

    def publish(self, view: Mapping[str, Any]) -> None:
        self.views.append(dict(view))


def opened(
    child: Agent, game: str = "tictactoe", simulations: int = 8, agent_begins: bool = False
) -> tuple[TablePage, Shown]:
    shown = Shown()
    return TablePage(Table(child, GAMES[game], simulations, agent_begins), shown), shown


def test_a_move_is_shown_at_once_and_answered_by_the_tables_search(child: Agent) -> None:
    page, shown = opened(child)
    assert page.welcome()["cells"] == [""] * 9
    page.do("place", {"move": 4})
    before, after = shown.views[-2:]
    assert before["thinks"]
    assert before["cells"][4] == YOU
    assert before["cells"].count("") == 8
    assert not before["able"]
    found = search(page.table.judge, TICTACTOE.rules.of(np.array([[0, 0, 0, 0, -1, 0, 0, 0, 0]], np.int8)), 8)
    move = int(found.action[0])
    assert after["cells"][move] == AGENT
    assert after["last"] == move
    assert after["says"][0].startswith(f"The agent places {move + 1} (it expects ")
    thought = after["thought"]
    assert thought["value"] == pytest.approx(float(found.value[0]))
    assert {one["move"]: one["visits"] for one in thought["candidates"]} == {
        place: int(found.visits[0, place]) for place in range(9) if place != 4
    }
    assert sum(one["visits"] for one in thought["candidates"]) == thought["simulations"] == 8
    assert sum(one["prior"] for one in thought["candidates"]) == pytest.approx(1)
    assert set(after["able"]) == {place for place in range(9) if place not in (4, move)}


def test_a_proven_result_is_marked_from_the_agents_side(child: Agent) -> None:
    page, shown = opened(child, simulations=32)
    page.table.board = TICTACTOE.rules.of(np.array([[-1, -1, 0, 1, 1, 0, 0, 0, 0]], np.int8))  # you move, and win by 6
    page.do("hint", {})
    thought = shown.views[-1]["thought"]
    assert thought["of"] == YOU
    assert thought["proven"]
    assert thought["value"] == -1
    winning = next(one for one in thought["candidates"] if one["move"] == 5)
    assert winning["known"]
    assert winning["value"] == -1
    assert shown.views[-1]["says"] == ["It would place 6 for you (it expects +1.00 of -1..1, proven)."]
    page.do("place", {"move": 5})
    view = shown.views[-1]
    assert view["over"]
    assert view["line"] == [3, 4, 5]
    assert view["says"] == ["You have won."]
    assert not view["able"]


@pytest.mark.parametrize("move", [4, 9, -1, 1.5, "4", True, None, [4], 10**30])
def test_an_illegal_move_is_refused_with_the_legal_ones(child: Agent, move: Any) -> None:
    page, shown = opened(child, simulations=0)
    page.do("place", {"move": 4})
    views = len(shown.views)
    with pytest.raises(ConfigError, match="is no move here; take one of "):
        page.do("place", {"move": move})
    assert len(shown.views) == views


@pytest.mark.parametrize(
    ("command", "arguments", "sentence"),
    [
        ("places", {"move": 1}, "did you mean 'place'"),
        ("place", {}, "'place' cannot be done with nothing"),
        ("place", {"move": 1, "twice": True}, "cannot be done with move, twice"),
        ("new", {"begins": "nobody"}, "Who begins is 'you' or 'agent'; got 'nobody'"),
        ("simulations", {"n": 33}, "are one of 0, 8, 32, 128, 512; got 33"),
        ("simulations", {"n": True}, "are one of"),
    ],
)
def test_invalid_commands_are_refused(child: Agent, command: str, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        opened(child)[0].do(command, arguments)


@pytest.mark.parametrize("game", ["tictactoe", "connect4", "othello"])
def test_every_game_ends_and_either_side_may_begin_the_next(child: Agent, game: str) -> None:
    page, shown = opened(child, game, simulations=0, agent_begins=True)
    assert page.view["began"] == AGENT
    assert AGENT in page.view["cells"]
    rng = np.random.default_rng(0)
    while not page.view["over"]:
        move = int(rng.choice(list(page.view["able"])))
        cell = page.view["able"][move]
        assert page.view["cells"][cell] == ""
        page.do("place", {"move": move})
        mine = next(view for view in shown.views[::-1] if view["thinks"] or view["over"])
        assert game == "othello" or mine["cells"][cell] == YOU
    assert page.view["says"][-1] in ("A draw.", "The agent has won.", "You have won.")
    counts = [page.view["cells"].count(whose) for whose in (YOU, AGENT)]
    if game == "othello":
        assert page.view["counts"]
        said = (
            "A draw." if counts[0] == counts[1] else "You have won." if counts[0] > counts[1] else "The agent has won."
        )
        assert page.view["says"][-1] == said
    for command in ("place", "hint"):
        with pytest.raises(ConfigError, match=OVER):
            page.do(command, {"move": 0} if command == "place" else {})
    page.do("new", {"begins": YOU})
    assert page.view["began"] == YOU
    assert not page.view["over"]
    assert page.view["thought"] is None
    assert page.view["says"] == []
    assert AGENT not in page.view["cells"][:1]


def test_a_mark_falls_where_it_is_announced(child: Agent) -> None:
    page, _ = opened(child, "connect4", simulations=0)
    assert page.view["able"] == {column: 35 + column for column in range(7)}
    page.do("place", {"move": 2})
    assert page.view["cells"][37] == YOU
    assert page.view["able"][2] in (30, 23)  # the agent may have placed above


def test_the_dial_sets_the_number_of_simulations(child: Agent) -> None:
    page, shown = opened(child, simulations=5)
    assert page.welcome()["budgets"] == [0, 5, 8, 32, 128, 512]
    page.do("simulations", {"n": 0})
    page.do("place", {"move": 0})
    thought = shown.views[-1]["thought"]
    assert thought["simulations"] == 0
    assert all(one["value"] is None for one in thought["candidates"])
    assert shown.views[-1]["says"][0].endswith("(its network alone).")
    page.do("simulations", {"n": 8})
    page.do("hint", {})
    assert shown.views[-1]["thought"]["simulations"] <= 8


@pytest.fixture
def server(child: Agent) -> Iterator[PageServer]:
    hub = Hub()
    page = TablePage(Table(child, CONNECT4, 8, False), hub)
    with PageServer(page, hub, files=page_files()) as server:
        yield server


def status_of(server: PageServer, path: str, **headers: str) -> tuple[int, str, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("set-cookie") or "", answer.read().decode()


def test_the_live_pages_access_guard_protects_the_board(server: PageServer) -> None:
    token = "/" + server.address.partition("/?")[2].join(["?", ""])
    assert status_of(server, token, Host="games.example")[0] == 421
    assert status_of(server, "/board.js")[0] == 403
    cookie = status_of(server, token)[1].partition(";")[0]
    status, _, body = status_of(server, "/", Cookie=cookie)
    assert status == 200
    assert 'src="board.js"' in body
    assert "<style" not in body
    assert "onclick" not in body
    for name in ("board.js", "board.css", "page.css", "link.js", "key.js", "states.js"):
        assert status_of(server, f"/{name}", Cookie=cookie)[0] == 200
    assert status_of(server, "/board.js", Cookie=cookie, Host="games.example")[0] == 421


def test_moves_come_through_the_pages_socket_and_errors_are_sentences(child: Agent) -> None:
    hub = Hub()
    table = TablePage(Table(child, TICTACTOE, 0, False), hub)
    with PageServer(table, hub, files=page_files()) as server, talk(server, let_in(server)) as socket:

        def answer(number: int, **of: Any) -> dict[str, Any]:
            socket.send(json.dumps({"id": number, "do": "place", "with": of}))
            return next_of(socket, "answer")

        assert answer(1, move=4) == {"type": "answer", "id": 1, "ok": True, "answer": {}}
        refused = answer(2, move=4)
        assert not refused["ok"]
        assert refused["sentence"].startswith("'5' is no move here; take one of ")
        for number in range(3, 9):
            if table.view["over"]:
                break
            assert answer(number, move=min(table.view["able"]))["ok"]
        assert answer(9, move=0) == {"type": "answer", "id": 9, "ok": False, "sentence": OVER}
    assert server.shared.malformed == 0


@pytest.mark.slow
@pytest.mark.parametrize("game", [CONNECT4, OTHELLO, TICTACTOE], ids=lambda game: game.name)
def test_a_person_plays_with_mouse_and_keyboard(child: Agent, game: Any) -> None:
    hub = Hub()
    table = TablePage(Table(child, game, 8, False), hub)
    with PageServer(table, hub, files=page_files()) as server, chromium() as browser:
        page: Page = browser.new_page(viewport={"width": 1280, "height": 800})
        complaints = complaints_of(page)
        page.goto(server.address)
        page.get_by_text("Your move.").wait_for()
        buttons = page.locator("#heads button.able" if game is CONNECT4 else "#board .cell.able")
        buttons.first.click()
        page.locator("#says li", has_text="The agent places").wait_for()
        assert page.locator("#board .agent").count() >= 1
        drawn = [int(words.split()[0]) for words in page.locator("#board .visits").all_inner_texts()]
        assert sum(drawn) == table.view["thought"]["simulations"] > 0
        assert page.locator("#candidates tr").count() == len(drawn)
        page.locator("#draw").uncheck()
        assert page.locator("#board .visits").count() == 0
        # One stop of the Tab key, and arrows within: the second place from the left is reached and taken.
        row = page.locator("#heads button" if game is CONNECT4 else "#board .cell")
        assert row.evaluate_all("cells => cells.filter((cell) => cell.tabIndex === 0).length") == 1
        row.first.focus()
        page.keyboard.press("ArrowRight")
        assert row.nth(1).evaluate("cell => cell === document.activeElement")
        if game is not CONNECT4:
            taken = page.locator("#board .cell:not(.able)").first
            taken.click(force=True)
            page.locator("#told", has_text="is no move here").wait_for()
        page.get_by_role("button", name="What would it do for me?").click()
        page.locator("#says li", has_text="for you").wait_for()
        page.get_by_label("Simulations of a move").fill("0")
        page.wait_for_function("document.getElementById('budget-says').textContent.startsWith('0')")
        page.get_by_role("button", name="it begins").click()
        page.locator("#says li", has_text="its network alone").wait_for()
        assert table.view["began"] == AGENT
        assert table.view["simulations"] == 0
        for _ in range(60):  # to its end, by the first free place
            if table.view["over"]:
                break
            marks = page.locator("#board .mark").count()
            buttons.first.click()
            page.wait_for_function(
                "n => document.querySelectorAll('#board .mark').length > n && !document.querySelector('.thinking')",
                arg=marks,
            )
        page.locator("#state.over").wait_for()
        assert page.locator("#state").inner_text() == table.view["says"][-1]
        assert page.get_by_role("button", name="What would it do for me?").is_disabled()
        assert page.locator("#board .won").count() == len(table.view["line"])
        for width in (1280, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


@pytest.mark.slow
def test_buttons_work_again_after_a_connection_that_was_broken_for_long(child: Agent) -> None:
    """Regression: they stayed disabled beside the words "Your move."."""
    hub = Hub()
    table = TablePage(Table(child, TICTACTOE, 8, False), hub)
    with PageServer(table, hub, files=page_files()) as server, chromium() as browser:
        page = browser.new_page()
        page.add_init_script("""
            const [Socket, ask, wait] = [WebSocket, fetch, setTimeout];
            window.sockets = [];
            WebSocket = class extends Socket { constructor(...to) { super(...to); window.sockets.push(this); } };
            window.fetch = (...what) => window.isOff ? Promise.reject(new TypeError('nobody')) : ask(...what);
            window.setTimeout = (done, ms) => wait(done, ms / 20);
        """)
        page.goto(server.address)
        page.get_by_text("Your move.").wait_for()
        page.evaluate("() => { window.isOff = true; window.sockets.at(-1).close(); }")
        page.locator("#state.silent").wait_for()
        assert page.locator("#board .cell").first.is_disabled()
        page.evaluate("() => { window.isOff = false; }")
        page.get_by_text("Your move.").wait_for()
        assert page.locator("#board .cell").first.is_enabled()
        assert page.get_by_role("button", name="it begins").is_enabled()
