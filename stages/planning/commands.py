"""The command of the stage: `devmind plan` lets an agent imagine a way, go it, and shows both on a page; so of tables
and of trades."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.agents import agent_with_head, folder_with_head
from devmind.cli.house import group
from devmind.cli.options import PageOption, RoomSeedOption, SetOption, raised_through
from devmind.cli.serving import Publisher, serve_page
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    import numpy as np

    from devmind.agent.agent import Agent
    from devmind.worlds.pointmaze import PointMazeRules
    from stages.planning.film import ImaginedTrip
    from stages.planning.settings import PlanConfig

plan = group("Plan and follow a path through a maze, sort a table, trade on paper, or carry out an instruction.")

AgentOption = Annotated[Path | None, raised_through("planning")]
FilmOption = Annotated[
    Path | None,
    typer.Option("--show", metavar="FILE", help="Write a page with a film of the plan and what came of it."),
]


@plan.command("maze")
def maze(
    name: Annotated[
        str, typer.Argument(metavar="[MAZE]", help="medium or large; from size child on also giant.")
    ] = "medium",
    agent: AgentOption = None,
    goal: Annotated[
        str | None,
        typer.Option("--goal", metavar="X,Y|TASK", help="A place in OGBench's units, or task1 to task5."),
    ] = None,
    sets: SetOption = None,
    film_: FilmOption = None,
    page: PageOption = None,
) -> None:
    """Draw several plans through a maze, choose one and follow it; on a page tick by tick, again and again.

    Keys of --set: start=X,Y or a task (else that of the goal), steps (of denoising), horizon (points of a plan),
    guidance (weight of start, goal and maze in denoising; 1 as taught), waypoints.N=X,Y (a given point of the first
    plan) and symbols=east,on,?,south (given moves, one a stride; ? leaves a move open).
    """
    rules = _maze(name)
    from stages.planning.settings import plan_config

    config = plan_config(sets or ())
    begin, end = _ends(rules, config.start, goal)
    _refuse_no_file(film_)
    if page is not None and (film_ or config.of_one_plan):
        raise ConfigError(
            "On the page the agent plans by itself, again and again; leave out --show, and all keys but start and "
            "guidance."
        )
    waypoints = dict(_waypoint(number, place, rules) for number, place in config.waypoints.items())
    words = _words(config.symbols)
    player = _planner(agent, rules, config)
    if page is None:
        given = {"waypoints": waypoints, "words": words, "steps": config.steps, "horizon": config.horizon}
        _film(player, rules, begin, end, film_, **given)
    else:
        _walk(player, rules, begin, end, name, page)


@plan.command("table")
def table(
    level: Annotated[str, typer.Argument(metavar="[LEVEL]", help="How many things: two, three ...")] = "three",
    agent: AgentOption = None,
    seed: RoomSeedOption = 0,
    film_: FilmOption = None,
) -> None:
    """Plan how a table is sorted, and do it."""
    _arrange(level, agent, seed, film_)


@plan.command("market")
def market(
    level: Annotated[
        str, typer.Argument(metavar="[LEVEL]", help="trend, reverting ...; replay:FILE: a table of prices.")
    ] = "trend",
    agent: AgentOption = None,
    seed: RoomSeedOption = 0,
    film_: FilmOption = None,
) -> None:
    """Plan trades on paper, and see what came of them."""
    _trade(level, agent, seed, film_)


@plan.command("room")
def room(
    env: Annotated[
        str, typer.Argument(metavar="ROOM", help="A room of BabyAI or MiniGrid, such as BabyAI-GoToSeqS5R2-v0.")
    ],
    agent: AgentOption = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="WORDS", help="An instruction; by default the room's mission.")
    ] = None,
    seed: RoomSeedOption = 0,
) -> None:
    """Carry out an instruction in a room. The plan is read in one pass, and printed."""
    _carry_out(env, agent, goal, seed)


def _film(
    player: Agent, rules: PointMazeRules, begin: np.ndarray, end: np.ndarray, file: Path | None, **given: Any
) -> None:
    """Go the way once, as `film.imagined` does with what is `given`; say how it went, and write the film."""
    from devmind.agent.threads import intra_op_threads
    from stages.planning import film

    with intra_op_threads(1):
        result = film.imagine_trip(player, rules, begin, end, **given)
    _print_trip(result)
    if file is not None:
        file.write_text(film.page(result), encoding="utf-8")
        show.path("page", file)
    if not result.arrived:
        raise typer.Exit(1)


def _planner(folder: Path | None, rules: PointMazeRules, config: PlanConfig) -> Agent:
    """An agent that was taught this maze, set to plan as the options say."""
    folder = folder_with_head(folder, "planning", "route", "to plan")
    with show.loading():
        from stages.planning.parts import ROUTE

    agent = agent_with_head(folder, "planning", ROUTE, "to plan")
    _refuse_unknown_maze(agent, rules)
    if config.guidance is not None:
        head: Any = agent.head(ROUTE)
        head.free_guidance = config.guidance
    return agent


def _print_trip(result: ImaginedTrip) -> None:
    """Print what was imagined and chosen, and what came of it."""
    import numpy as np

    from stages.planning import WORDS

    chosen = result.found.chosen
    show.line(
        f"{show.count_of(result.found.marks.shape[1], 'candidate')}, marks {result.found.marks.min():.1f} to "
        f"{result.found.marks.max():.1f}; number {int(chosen[0]) + 1} chosen, in {result.seconds:.2f} s"
    )
    show.line(f"moves: {' '.join(result.moves) or 'none'}" + (f"; {result.verdict}" if result.verdict else ""))
    if result.words:
        made_of = result.kept
        show.line(
            f"of {show.count_of(len(result.words), 'move')} given the chosen path makes {made_of[int(chosen[0])]}, the "
            f"candidates make {min(made_of)} to {max(made_of)}"
        )
    for at, word, made in result.given:
        instead = f"goes {WORDS[made]}" if made else "stays in its cell"
        does = "and the path does it" if word == made else f"the path {instead}"
        show.line(f"stride {at + 1}: {WORDS[word]} was given, {does}")
    length = float(np.linalg.norm(np.diff(result.walked, axis=0), axis=1).sum())
    outcome = f"arrived after {show.count_of(len(result.walked) - 1, 'tick')}" if result.arrived else "did not arrive"
    outcome += " and says that there is no plan" if result.none else ""
    show.line(f"{outcome}, {length:.1f} units gone; {show.count_of(result.plans, 'plan')} made on the way")


def _carry_out(room: str, agent: Path | None, sentence: str | None, seed: int) -> None:
    from devmind.worlds.minigrid import room as made

    made(room).close()  # it says what is wrong with the name, before an agent is loaded
    if sentence is not None and not sentence.strip():
        raise ConfigError("--goal needs an instruction, such as 'go to the red ball'; without it the room gives one.")
    agent = folder_with_head(agent, "planning", "instruct", "to be instructed")
    with show.loading():
        from stages.planning.instruct.carrying import carried_out
        from stages.planning.parts import INSTRUCT

    result = carried_out(agent_with_head(agent, "planning", INSTRUCT, "to be instructed"), room, seed, sentence)
    show.line(f"told: {result.said}")
    show.line(result.answer)
    if not result.declined:
        show.line(result.first)
        outcome = "done" if result.rewarded or sentence else "not what was wanted"
        outcome = f"stuck: {result.last.removesuffix('.')}" if result.stuck else outcome
        show.line(f"{outcome}, {show.count_of(result.steps, 'step')}")
    if result.declined and sentence:
        raise typer.Exit(2)  # as for any other word that is not known
    if not result.done or not (result.rewarded or sentence):
        raise typer.Exit(1)


def _arrange(level: str, agent: Path | None, seed: int, page: Path | None) -> None:
    from devmind.worlds.tabletop import TabletopRules

    TabletopRules(level)  # it says what is wrong with the level, before an agent is loaded
    _refuse_no_file(page)
    agent = folder_with_head(agent, "planning", "arrange", "to arrange")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.planning.arrange import film
        from stages.planning.parts import ARRANGE

    with intra_op_threads(1):
        table = film.arrange_table(agent_with_head(agent, "planning", ARRANGE, "to arrange"), level, seed)
    show.line(
        f"{show.count_of(len(table.sure), 'candidate')}, {100 * table.sure.min():.0f} to "
        f"{100 * table.sure.max():.0f} % sure of their symbols; number {table.chosen + 1} chosen"
    )
    show.line(f"plan: {', '.join(table.words) or 'nothing'}; {table.belief[0]}")
    outcome = "all is sorted" if table.sorted else f"not all is sorted: {table.belief[1].removesuffix('.')}"
    show.line(f"{outcome}, {show.count_of(len(table.walked) - 1, 'tick')}; {show.count_of(table.plans, 'plan')} made")
    if page is not None:
        page.write_text(film.page(table), encoding="utf-8")
        show.path("page", page)
    if not table.sorted:
        raise typer.Exit(1)


def _trade(level: str, agent: Path | None, seed: int, page: Path | None) -> None:
    from devmind.worlds.market import MarketRules

    MarketRules(level)  # it says what is wrong with the level or its file, before an agent is loaded
    _refuse_no_file(page)
    agent = folder_with_head(agent, "planning", "trade_plan", "to plan trades")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.planning.parts import TRADE_PLAN
        from stages.planning.trade import film

    with intra_op_threads(1):
        found = film.plan_market(agent_with_head(agent, "planning", TRADE_PLAN, "to plan trades"), level, seed)
    number = found.weighed.steps.shape[1]
    show.line(f"first plan: {show.count_of(number, 'candidate')}, and never trading; {found.judged}")
    chosen = "" if found.chosen == number else f" (number {found.chosen + 1})"
    show.line(f"chosen: {found.said}{chosen}")
    show.line(
        f"net worth {found.worth:.3f} after {show.count_of(found.ticks, 'tick')} and "
        f"{show.count_of(found.plans, 'plan')}, from 1, on paper; buying and holding: {found.held:.3f}"
    )
    if page is not None:
        page.write_text(film.page(found), encoding="utf-8")
        show.path("page", page)


def _walk(agent: Agent, rules: PointMazeRules, start: Any, goal: Any, maze: str, port: int) -> None:
    from devmind.agent.threads import intra_op_threads
    from stages.planning.maze_page import MazePage, page_files

    def make(publisher: Publisher) -> MazePage:
        return MazePage(agent, rules, start, goal, publisher, f"devmind plan maze {maze} --page {port}")

    with intra_op_threads(1), serve_page(make, port, page_files()) as walking:
        walking.run()


def _refuse_no_file(page: Path | None) -> None:
    """Refuse, before anything is planned, a page whose folder does not exist or that names a folder."""
    if page is not None and not page.parent.is_dir():
        raise ConfigError(f"--show needs an existing folder; there is no '{page.parent}'. Make it first.")
    if page is not None and page.is_dir():
        raise ConfigError(
            f"--show writes a file; '{page}' is a folder. Name a file in it, such as {page / 'plan.html'}."
        )


def _refuse_unknown_maze(agent: Agent, rules: PointMazeRules) -> None:
    """Refuse, before anything is planned, a maze that the agent was never taught: it knows nothing of its walls."""
    from stages.planning.route.lesson import LEVELS

    size = agent.config.size
    known = LEVELS[size]
    if rules.maze_name not in known:
        raise ConfigError(
            f"This agent was never taught the maze '{rules.maze_name}': at size '{size}' it learned "
            f"{' and '.join(known)}. Plan in one of these, or give an agent of another size (--agent)."
        )


def _maze(name: str) -> PointMazeRules:
    """The rules of the named maze."""
    from devmind.worlds.pointmaze import MAZES, PointMazeRules

    if name not in MAZES:
        raise ConfigError(f"There is no maze '{name}'{nearest(name, MAZES)}")
    return PointMazeRules(name)


def _ends(rules: PointMazeRules, start: str | None, goal: str | None) -> tuple[Any, Any]:
    """Start and goal, [2] each, in OGBench's units. By default the start is that of the goal's task, or of task1 where
    no task is named."""
    end = _place("task1" if goal is None else goal, rules, 1, "--goal")
    begin = _place(start or (goal if goal and goal.startswith("task") else "task1"), rules, 0, "start")
    rules.between(begin[None], end[None])  # it says what is wrong with them
    return begin, end


def _place(text: str, rules: PointMazeRules, end: int, option: str) -> Any:
    """A place in OGBench's units: two numbers, or the start (`end` 0) or goal (1) of a task."""
    import numpy as np

    tasks = {f"task{number + 1}": task for number, task in enumerate(rules.maze.tasks)}
    if text in tasks:
        return rules.maze.centres(np.array(tasks[text][end]))
    numbers = text.split(",")
    try:
        x, y = (float(one) for one in numbers)
    except ValueError:
        raise ConfigError(
            f"{option} takes a place x,y such as 12,16, or a task; got '{text}'{nearest(text, tasks)}"
        ) from None
    return np.array([x, y])


def _waypoint(number: str, place: str, rules: PointMazeRules) -> tuple[int, Any]:
    import numpy as np

    if not number.isdecimal():
        raise ConfigError(f"A waypoint is a point's number and a place, as in waypoints.5=12,16; got '{number}'.")
    where = _place(place, rules, 1, f"waypoints.{number}")
    if not (np.isfinite(where).all() and rules.maze.inside(where)):
        raise ConfigError(f"The waypoint {place} is inside a wall of the maze, or outside of it.")
    return int(number), where


def _words(text: str | None) -> dict[int, int]:
    """Given moves by their number."""
    from stages.planning import WORDS

    found: dict[int, int] = {}
    for number, word in enumerate((text or "?").replace(" ", "").split(",")):
        if word != "?":
            if word not in WORDS:
                raise ConfigError(f"There is no move '{word}' (symbols){nearest(word, WORDS)}")
            found[number] = WORDS.index(word)
    return found
