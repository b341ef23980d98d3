"""The made-up market, traded and learned from while processes are killed.

    python docs/market.py FOLDER [EPISODES [population]]

It starts three processes: `devmind feed serve` with an agent that has never traded, the simulator `feed_market.py`, and
the lesson `trade`, which learns from the spool and is saved continuously. The lesson is killed (SIGKILL) four times and
started again, the feed once. The agent acts by the newest checkpoint. FOLDER gets `market.json` and `market.svg`;
`python docs/market.py --draw FILE` draws the picture anew. With `population` the lesson is a genetic algorithm's: each
generation lives on the newest paths of the feed, all members at once, and the fittest trades.
"""

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SIZE, STEPS = "nursery", 240
KILLS = (15, 35, 50, 65, 90)
"""Steps on the disk at which a process is killed: the third time the feed, else the lesson."""
COLOURS = {"agent": "#1f5fbf", "rule": "#c0501f", "hold": "#4b8b3b", "cash": "#888888"}
NAMES = {"agent": "the agent", "rule": "rule (z-score of 32 ticks)", "hold": "buy and hold", "cash": "cash"}


def begin(run: Path) -> None:
    """Save the agent that the run begins with: a newborn with the parts of the stage planning."""
    from devmind.agent.agent import Agent
    from devmind.agent.config import AgentConfig
    from stages.planning.stage import PlanningStage

    agent = Agent(AgentConfig(size=SIZE, seed=0))
    PlanningStage().admit(agent)
    agent.config.stages = ["planning"]
    (run / "checkpoints").mkdir(parents=True)
    agent.save_pretrained(run / "start")


def learn(run: Path, spool: str, *sets: str) -> None:
    """Teach the lesson from its newest checkpoint on, or from its beginning."""
    from devmind.agent.agent import Agent
    from devmind.config import load
    from devmind.curriculum.journal import Journal
    from devmind.curriculum.start import make_context
    from devmind.curriculum.teaching import position, teach
    from stages.planning.trade.lesson import lesson

    config = load(SIZE, {}, ["loggers=[]", "threads=1", f"feed.place={spool}", "feed.world=market", *sets])
    context = make_context(config, run, None, ())
    agent, at = Agent.from_pretrained(run / "start"), position(context)
    teach(lesson(context), STEPS, agent, context, Journal(run / "journal.jsonl"), resume=at)


def step_on_disk(run: Path) -> int:
    """The step of the newest checkpoint."""
    from devmind.checkpointing.generations import on_shelf, read_manifest

    found = on_shelf(run / "checkpoints")
    return int(read_manifest(found[0])["about"]["step"]) if found else 0


def play(folder: Path, episodes: int, learner: str = "", until: float = float("inf")) -> dict[str, list[list[float]]]:
    """Trade, learn and kill, at most until this step is on the disk; gives the simulator's rows and the kills."""
    sets = [f"lessons.trade.learner={learner}"] if learner else []
    run, spool, table = folder / "run", folder / "spool", folder / "worth.csv"
    begin(run)
    this, kills = [sys.executable, str(Path(__file__))], []
    serve = [sys.executable, "-m", "devmind", "feed", "serve", str(spool), "--agent", str(run / "start"), "--at"]
    feed = subprocess.Popen([*serve, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    address = feed.stdout.readline().split()[2].rstrip(",")
    market = subprocess.Popen(
        [sys.executable, str(HERE / "feed_market.py"), address, str(spool / "token"), str(episodes), str(table)]
    )
    lesson = None
    try:
        while market.poll() is None and step_on_disk(run) < until:
            if lesson is None and table.exists():
                lesson = subprocess.Popen([*this, "--learn", str(run), str(spool), *sets])
            if lesson is not None and len(kills) < len(KILLS) and step_on_disk(run) >= KILLS[len(kills)]:
                victim = feed if len(kills) == 2 else lesson
                victim.kill()
                victim.wait()
                kills.append([time.time(), float(victim is feed), step_on_disk(run)])
                if victim is feed:
                    feed = subprocess.Popen([*serve, address])
                else:
                    lesson = subprocess.Popen([*this, "--learn", str(run), str(spool), *sets])
            time.sleep(0.1)
    finally:
        for process in (lesson, feed, market):
            if process is not None:
                process.kill()
                process.wait()
    rows = [[float(cell) for cell in line.split(",")] for line in table.read_text().splitlines()[1:]]
    began_s = rows[0][0]
    return {
        "rows": [[round(row[0] - began_s, 1), *row[1:3], *(round(cell, 4) for cell in row[3:])] for row in rows],
        "kills": [[round(kill[0] - began_s, 1), *kill[1:]] for kill in kills],
        "steps": [[step_on_disk(run)]],
    }


def growths(found: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    """By trader, what the mean logarithm of net worth grew by in each episode."""
    whole = [row for row in found["rows"] if row[1] % 256 == 0]
    ends = [*whole[::2][:1], *whole[1::2]]  # an episode's last tick is the next one's first
    pairs = list(itertools.pairwise(ends))
    return {name: [b[3 + at] - a[3 + at] for a, b in pairs] for at, name in enumerate(("agent", "hold", "rule"))}


def draw(found: dict[str, list[list[float]]]) -> str:
    """The picture as SVG: net worth over time, and the growth of each episode; kills are marked."""
    rows, kills, each = found["rows"], found["kills"], growths(found)
    end_s = rows[-1][0]
    lines = {name: [(row[0], row[3 + at]) for row in rows] for at, name in enumerate(("agent", "hold", "rule"))}
    times = [row[0] for row in rows if row[1] % 256 == 0][1::2]
    panels = [
        (
            "logarithm of net worth (mean of 40 accounts, all sold, after fees and taxes); 0 is what they began with",
            lines,
        ),
        ("growth of it in each episode of 256 ticks", {n: list(zip(times, y, strict=False)) for n, y in each.items()}),
    ]
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 470" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for number, (title, curves) in enumerate(panels):
        top, height = (40, 220) if number == 0 else (310, 120)
        values = [y for curve in curves.values() for _, y in curve] + [0.0]
        low, high = min(values), max(values)

        def place(x: float, y: float, top=top, height=height, low=low, high=high) -> str:
            return f"{50 + 690 * x / end_s:.1f},{top + height * (high - y) / (high - low):.1f}"

        parts.append(f'<text x="50" y="{top - 10}">{title}</text>')
        for value in (low, 0.0, high):
            y = place(0, value).split(",")[1]
            parts.append(f'<text x="44" y="{y}" text-anchor="end" dy="4">{value:.2f}</text>')
        for at_s, is_feed, step in kills:
            x = place(at_s, 0).split(",")[0]
            dash = ' stroke-dasharray="5 3"' if is_feed else ""
            parts.append(f'<path d="M{x} {top}v{height}" stroke="#d02020"{dash}/>')
            if number == 0:
                what = "feed" if is_feed else f"step {step:.0f}"
                parts.append(f'<text x="{x}" y="{top + height + 14}" text-anchor="middle" fill="#d02020">{what}</text>')
        for name, curve in {**curves, "cash": [(0.0, 0.0), (end_s, 0.0)]}.items():
            points = " ".join(place(*point) for point in curve)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>')
    for at, (name, label) in enumerate(NAMES.items()):
        parts.append(f'<text x="{50 + 185 * at}" y="462" fill="{COLOURS[name]}">{label}</text>')
    told = f"{end_s:.0f} s; red: the lesson is killed at this step; dashed: the feed"
    parts.append(f'<text x="740" y="446" text-anchor="end">{told}</text></svg>\n')
    return "".join(parts)


def tell(found: dict[str, list[list[float]]]) -> str:
    """What the last half of the episodes came to, a line a trader."""
    each = growths(found)
    half = len(each["agent"]) // 2
    means = {name: sum(grown[half:]) / len(grown[half:]) for name, grown in each.items()}
    apart = [a - r for a, r in zip(each["agent"][half:], each["rule"][half:], strict=True)]
    mean = sum(apart) / len(apart)
    spread = (sum((one - mean) ** 2 for one in apart) / (len(apart) - 1)) ** 0.5 if len(apart) > 1 else float("nan")
    lines = [f"{NAMES[name]}: {value:+.3f} an episode" for name, value in {**means, "cash": 0.0}.items()]
    lines.append(f"agent above rule: {mean:+.4f} ± {1.96 * spread / len(apart) ** 0.5:.4f} ({len(apart)} episodes)")
    lines.append(f"kills: {found['kills']}; last step on disk {found['steps'][0][0]}")
    return "\n".join(lines)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--learn", run, spool, *sets]:
            learn(Path(run), spool, *sets)
        case ["--draw", file]:
            Path(file).with_suffix(".svg").write_text(draw(json.loads(Path(file).read_text())))
        case [folder, *episodes]:
            found = play(Path(folder), int(episodes[0]) if episodes else 45, *episodes[1:])
            Path(folder, "market.json").write_text(json.dumps(found))
            Path(folder, "market.svg").write_text(draw(found))
            print(tell(found))
