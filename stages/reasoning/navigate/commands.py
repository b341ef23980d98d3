"""`devmind navigate`: an agent walks through a room of MiniGrid, and its map is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_with_head, folder_with_head
from devmind.cli.house import group
from devmind.cli.options import RoomSeedOption, raised_through

navigate = group("Let an agent find its way through a room.")


@navigate.command("navigate")
def walk(
    room: Annotated[
        str, typer.Argument(metavar="ROOM", help="A room of MiniGrid with a goal or a thing to pick up.")
    ] = "MiniGrid-FourRooms-v0",
    agent: Annotated[Path | None, raised_through("reasoning")] = None,
    seed: RoomSeedOption = 0,
) -> None:
    """Let an agent walk through a room of which it sees 7 x 7 cells at a time, and print its map."""
    import numpy as np

    from devmind.algorithms.grid import FLOOR, describe_cell
    from devmind.worlds.minigrid import env_of, shared_room
    from stages.reasoning.navigate.missions import parse_mission

    shared_room(room).reset(seed=seed)  # an unknown room or mission is refused before the agent is loaded
    parse_mission(str(env_of(shared_room(room)).mission))
    agent = folder_with_head(agent, "reasoning", "view_cells", "to find its way")
    with show.loading():
        from devmind.acting import rollout
        from stages.reasoning.navigate.drawing import LEGEND, draw_map
        from stages.reasoning.navigate.exam import navigator
        from stages.reasoning.navigate.navigator import UNREACHABLE
        from stages.reasoning.navigate.rooms import mission_rooms
        from stages.reasoning.parts import CELLS

    rooms = mission_rooms((room,), np.array([seed]))
    walker = navigator(agent_with_head(agent, "reasoning", CELLS, "to find its way", ("reasoning",)))
    show.line(f"mission: {rooms.missions[0]}")
    steps, earned = 0, 0.0
    for tick in rollout(walker, rooms):
        steps, earned = steps + 1, earned + float(tick.reward[0])
        (one,) = walker.rows
        if one.state == UNREACHABLE or tick.ended.all():
            break
    for line in draw_map(one.map):
        show.line(f"  {line}")
    show.line(LEGEND)
    if one.map.carried != FLOOR:
        show.line(f"carried: {describe_cell(one.map.carried)}")
    outcome = f"arrived after {show.count_of(steps, 'step')}" if earned > 0 else one.state
    show.line(f"{outcome}; {show.count_of(one.map.slips, 'step')} did not lead where expected")
    if earned <= 0:
        raise typer.Exit(1)
