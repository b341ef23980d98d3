"""The command of the stage: `devmind plan` lets an agent imagine a way, go it, and shows both on a page; so of tables
and of trades."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.agents import agent_option, raised_through, taught_agent, taught_folder
from devmind.cli.house import group
from devmind.cli.serving import OpenOption, PortOption, Publisher, SecondsOption, served
from devmind.errors import ConfigError, nearest

if TYPE_CHECKING:
    import numpy as np

    from devmind.agent.agent import Agent
    from devmind.worlds.pointmaze import PointMazeRules
    from stages.planning.film import ImaginedTrip

plan = group(
    "Plan and follow a path through a maze, sort a table, trade on paper, or carry out an instruction in a room."
)

OTHERS = ("tabletop:three", "market:trend")
"""Examples of the names of worlds that are no mazes."""
Folder = Annotated[Path | None, agent_option(raised_through("planning"))]

Env = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="A maze (pointmaze-medium, pointmaze-large; from size child on also pointmaze-giant), a "
        "table (tabletop:three), a market (market:reverting, market:replay:FILE), or a room of BabyAI.",
    ),
]
Goal = Annotated[
    str | None,
    typer.Option(
        "--goal",
        metavar="X,Y|TASK|WORDS",
        help="A place in OGBench's units, or task1 to task5; in a room an instruction, by default its mission.",
    ),
]
Start = Annotated[
    str | None, typer.Option("--start", metavar="X,Y|TASK", help="The start; by default that of the task.")
]
Waypoints = Annotated[
    list[str] | None,
    typer.Option("--waypoint", metavar="N:X,Y", help="A given point of the plan; may be repeated."),
]
Symbols = Annotated[
    str | None,
    typer.Option(
        "--symbols", metavar="WORDS", help="Given moves, one a stride, such as east,on,?,south; ? leaves a move open."
    ),
]
Steps = Annotated[
    int | None, typer.Option("--steps", min=1, metavar="N", help="Denoising steps; by default those of the agent.")
]
Horizon = Annotated[
    int | None, typer.Option("--horizon", min=2, metavar="N", help="Points of a plan; by default as many as learned.")
]
Film = Annotated[Path | None, typer.Option("--show", metavar="FILE", help="Write a page with a film of the denoising.")]
Page = Annotated[bool, typer.Option("--page", help="Serve a page that shows the walk and the plan.")]
Guidance = Annotated[
    float | None,
    typer.Option(
        "--guidance",
        min=0.0,
        metavar="X",
        help="Weight of start, goal and maze in denoising (classifier-free guidance); 1 as taught.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**63 - 1, metavar="N", help="Seed of a room, a table or a market.")
]


@plan.command("plan")
def imagine(
    env: Env,
    agent: Folder = None,
    goal: Goal = None,
    start: Start = None,
    waypoint: Waypoints = None,
    symbols: Symbols = None,
    steps: Steps = None,
    horizon: Horizon = None,
    film_: Film = None,
    page: Page = False,
    port: PortOption = 0,
    open_: OpenOption = True,
    seconds: SecondsOption = None,
    guidance: Guidance = None,
    seed: Seed = 0,
) -> None:
    """Draw several plans to a goal, choose one and follow it. Points and moves of the first plan may be given."""
    kind, _, level = env.partition(":")
    of_mazes = (start, waypoint or None, symbols, steps, page or None, guidance)
    if env.startswith(("BabyAI-", "MiniGrid-")):
        _refuse(
            (*of_mazes, horizon, film_),
            "In a room the agent carries out an instruction; the only options are --agent, --goal and --seed. Its "
            "plan is read in one pass and printed, without denoising, so there is no film for --show.",
        )
        _carry_out(env, agent, goal, seed)
        return
    if kind == "tabletop":
        _refuse((*of_mazes, goal, horizon), "For a table the only options are --agent, --seed and --show.")
        _arrange(level or "three", agent, seed, film_)
        return
    if kind == "market":
        _refuse((*of_mazes, goal), "For a market the only options are --agent, --seed, --horizon and --show.")
        _trade(level or "trend", agent, seed, horizon, film_)
        return
    rules = _maze(env)
    begin, end = _ends(rules, start, goal)
    _refuse_no_file(film_)
    if page:
        _refuse(
            (waypoint or None, symbols, steps, horizon, film_),
            "On the page the agent plans by itself, again and again; leave out --waypoint, --symbols, --steps, "
            "--horizon and --show.",
        )
    waypoints, words = dict(_waypoint(one, rules) for one in waypoint or ()), _words(symbols)
    player = _planner(agent, rules, guidance)
    if page:
        _walk(player, rules, begin, end, env, port, open_, seconds)
        return
    _film(
        player,
        rules,
        begin,
        end,
        film_,
        waypoints=waypoints,
        words=words,
        steps=steps,
        horizon=horizon,
    )


def _refuse(given: Sequence[object], sentence: str) -> None:
    """Raise ConfigError with this sentence if one of these options was given."""
    if any(one is not None for one in given):
        raise ConfigError(sentence)


def _film(
    player: Agent, rules: PointMazeRules, begin: np.ndarray, end: np.ndarray, file: Path | None, **given: Any
) -> None:
    """Go the way once, as `film.imagined` does with what is `given`; say how it went, and write the film."""
    from devmind.agent.threads import intra_op_threads
    from stages.planning import film

    with intra_op_threads(1):
        result = film.imagined(player, rules, begin, end, **given)
    _tell(result)
    if file is not None:
        file.write_text(film.page(result), encoding="utf-8")
        show.path("page", file)
    if not result.arrived:
        raise typer.Exit(1)


def _planner(folder: Path | None, rules: PointMazeRules, guidance: float | None) -> Agent:
    """An agent that was taught this maze, set to plan as the options say."""
    if guidance is not None and not isfinite(guidance):
        raise ConfigError(f"--guidance takes a number such as 1.5; got {guidance}.")
    folder = taught_folder(folder, "planning", "route", "to plan")
    with show.loading():
        from stages.planning.parts import ROUTE

    agent = taught_agent(folder, "planning", ROUTE, "to plan")
    _refuse_untaught(agent, rules)
    if guidance is not None:
        head: Any = agent.head(ROUTE)
        head.free_guidance = guidance
    return agent


def _tell(result: ImaginedTrip) -> None:
    """Print what was imagined and chosen, and what came of it."""
    import numpy as np

    from stages.planning import WORDS

    chosen = result.found.chosen
    show.line(
        f"{show.counted(result.found.marks.shape[1], 'candidate')}, marks {result.found.marks.min():.1f} to "
        f"{result.found.marks.max():.1f}; number {int(chosen[0]) + 1} chosen, in {result.seconds:.2f} s"
    )
    show.line(f"moves: {' '.join(result.moves) or 'none'}" + (f"; {result.verdict}" if result.verdict else ""))
    if result.words:
        made_of = result.kept
        show.line(
            f"of {show.counted(len(result.words), 'move')} given the chosen path makes {made_of[int(chosen[0])]}, the "
            f"candidates make {min(made_of)} to {max(made_of)}"
        )
    for at, word, made in result.given:
        instead = f"goes {WORDS[made]}" if made else "stays in its cell"
        does = "and the path does it" if word == made else f"the path {instead}"
        show.line(f"stride {at + 1}: {WORDS[word]} was given, {does}")
    length = float(np.linalg.norm(np.diff(result.walked, axis=0), axis=1).sum())
    outcome = f"arrived after {show.counted(len(result.walked) - 1, 'tick')}" if result.arrived else "did not arrive"
    outcome += " and says that there is no plan" if result.none else ""
    show.line(f"{outcome}, {length:.1f} units gone; {show.counted(result.plans, 'plan')} made on the way")


def _carry_out(room: str, agent: Path | None, sentence: str | None, seed: int) -> None:
    from devmind.worlds.minigrid import room as made

    made(room).close()  # it says what is wrong with the name, before an agent is loaded
    if sentence is not None and not sentence.strip():
        raise ConfigError("--goal needs an instruction, such as 'go to the red ball'; without it the room gives one.")
    agent = taught_folder(agent, "planning", "instruct", "to be instructed")
    with show.loading():
        from stages.planning.instruct.carrying import carried_out
        from stages.planning.parts import INSTRUCT

    result = carried_out(taught_agent(agent, "planning", INSTRUCT, "to be instructed"), room, seed, sentence)
    show.line(f"told: {result.said}")
    show.line(result.answer)
    if not result.declined:
        show.line(result.first)
        outcome = "done" if result.rewarded or sentence else "not what was wanted"
        outcome = f"stuck: {result.last.removesuffix('.')}" if result.stuck else outcome
        show.line(f"{outcome}, {show.counted(result.steps, 'step')}")
    if result.declined and sentence:
        raise typer.Exit(2)  # as for any other word that is not known
    if not result.done or not (result.rewarded or sentence):
        raise typer.Exit(1)


def _arrange(level: str, agent: Path | None, seed: int, page: Path | None) -> None:
    from devmind.worlds.tabletop import TabletopRules

    TabletopRules(level)  # it says what is wrong with the level, before an agent is loaded
    _refuse_no_file(page)
    agent = taught_folder(agent, "planning", "arrange", "to arrange")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.planning.arrange import film
        from stages.planning.parts import ARRANGE

    with intra_op_threads(1):
        table = film.arranged(taught_agent(agent, "planning", ARRANGE, "to arrange"), level, seed)
    show.line(
        f"{show.counted(len(table.sure), 'candidate')}, {100 * table.sure.min():.0f} to {100 * table.sure.max():.0f} % "
        f"sure of their symbols; number {table.chosen + 1} chosen"
    )
    show.line(f"plan: {', '.join(table.words) or 'nothing'}; {table.belief[0]}")
    outcome = "all is sorted" if table.sorted else f"not all is sorted: {table.belief[1].removesuffix('.')}"
    show.line(f"{outcome}, {show.counted(len(table.walked) - 1, 'tick')}; {show.counted(table.plans, 'plan')} made")
    if page is not None:
        page.write_text(film.page(table), encoding="utf-8")
        show.path("page", page)
    if not table.sorted:
        raise typer.Exit(1)


def _trade(level: str, agent: Path | None, seed: int, horizon: int | None, page: Path | None) -> None:
    from devmind.worlds.market import MarketRules
    from stages.planning.trade import refuse_horizon

    MarketRules(level)  # it says what is wrong with the level or its file, before an agent is loaded
    refuse_horizon(horizon)
    _refuse_no_file(page)
    agent = taught_folder(agent, "planning", "trade_plan", "to plan trades")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from stages.planning.parts import TRADE_PLAN
        from stages.planning.trade import film

    with intra_op_threads(1):
        found = film.planned(taught_agent(agent, "planning", TRADE_PLAN, "to plan trades"), level, seed)
    number = found.weighed.steps.shape[1]
    show.line(f"first plan: {show.counted(number, 'candidate')}, and never trading; {found.judged}")
    chosen = "" if found.chosen == number else f" (number {found.chosen + 1})"
    show.line(f"chosen: {found.said}{chosen}")
    show.line(
        f"net worth {found.worth:.3f} after {show.counted(found.ticks, 'tick')} and "
        f"{show.counted(found.plans, 'plan')}, from 1, on paper; buying and holding: {found.held:.3f}"
    )
    if page is not None:
        page.write_text(film.page(found), encoding="utf-8")
        show.path("page", page)


def _walk(
    agent: Agent, rules: PointMazeRules, start: Any, goal: Any, env: str, port: int, open_: bool, seconds: float | None
) -> None:
    from devmind.agent.threads import intra_op_threads
    from stages.planning.maze_page import MazePage, page_files

    def make(publisher: Publisher) -> MazePage:
        return MazePage(agent, rules, start, goal, publisher, f"devmind plan {env} --page")

    with intra_op_threads(1), served(make, port, open_, page_files()) as walking:
        walking.run(seconds)


def _refuse_no_file(page: Path | None) -> None:
    """Refuse, before anything is planned, a page whose folder does not exist or that names a folder."""
    if page is not None and not page.parent.is_dir():
        raise ConfigError(f"--show needs an existing folder; there is no '{page.parent}'. Make it first.")
    if page is not None and page.is_dir():
        raise ConfigError(
            f"--show writes a file; '{page}' is a folder. Name a file in it, such as {page / 'plan.html'}."
        )


def _refuse_untaught(agent: Agent, rules: PointMazeRules) -> None:
    """Refuse, before anything is planned, a maze that the agent was never taught: it knows nothing of its walls."""
    from stages.planning.route.lesson import LEVELS

    size = agent.config.size
    known = LEVELS[size]
    if rules.maze_name not in known:
        raise ConfigError(
            f"This agent was never taught the maze '{rules.maze_name}': at size '{size}' it learned "
            f"{' and '.join(known)}. Plan in one of these, or give an agent of another size (--agent)."
        )


def _maze(env: str) -> PointMazeRules:
    """The rules of the named maze."""
    from devmind.worlds.pointmaze import MAZES, PointMazeRules

    known = [f"pointmaze-{name}" for name in MAZES]
    if env not in known:
        raise ConfigError(f"There is no maze, table, market or room '{env}'{nearest(env, [*known, *OTHERS])}")
    return PointMazeRules(env.removeprefix("pointmaze-"))


def _ends(rules: PointMazeRules, start: str | None, goal: str | None) -> tuple[Any, Any]:
    """Start and goal, [2] each, in OGBench's units. By default the start is that of the goal's task, or of task1 where
    no task is named."""
    end = _place("task1" if goal is None else goal, rules, 1, "--goal")
    begin = _place(start or (goal if goal and goal.startswith("task") else "task1"), rules, 0, "--start")
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


def _waypoint(text: str, rules: PointMazeRules) -> tuple[int, Any]:
    import numpy as np

    number, _, place = text.partition(":")
    if not number.isdecimal():
        raise ConfigError(f"--waypoint takes a point's number and a place, such as 5:12,16; got '{text}'.")
    where = _place(place, rules, 1, "--waypoint")
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
                raise ConfigError(f"There is no move '{word}' (--symbols){nearest(word, WORDS)}")
            found[number] = WORDS.index(word)
    return found
