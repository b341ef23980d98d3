"""How an agent is raised, from top to bottom: `python docs/one-childhood.py`, or `... tiny reflex` for a first try.

A childhood is a list of stages. A stage adds parts to the agent, teaches its lessons and holds its exams; a gate on
each exam decides whether the agent has passed. `devmind stage run all` does the same, and what a long run needs
besides: it resumes to the bit, rehearses earlier lessons, examines earlier stages again, and repeats what failed.
"""

import sys
from pathlib import Path

from devmind import Agent, RunConfig
from devmind.agent import AgentConfig
from devmind.agent.precision import round_to_half
from devmind.config import load
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.journal import Journal
from devmind.curriculum.start import load_stage, make_context
from devmind.curriculum.teaching import teach

STAGES = ("reflex", "memory", "language", "reasoning", "planning", "voice")
"""See, hear and move; remember; read and speak; search; plan; hear words and talk. Each builds on those before."""
ROW = "{:<10} {:<32} {:>8} {:>8} {:>8} {:>8}  {}"


def raise_agent(stages: tuple[str, ...], config: RunConfig, out: Path, share: float = 1.0) -> tuple[Agent, list[str]]:
    """The agent after all `stages`, and a report: one line for each measure of each exam.

    Args:
        share: of the steps of each lesson; 1 teaches them whole.
    """
    agent = Agent(AgentConfig(size=config.size, seed=config.seed))  # a newborn: senses, a trunk, no skills
    report = [ROW.format("stage", "measure", "score", "bound", "chance", "rule", "verdict")]
    for name in stages:
        stage = load_stage(name)
        folder = out / name
        folder.mkdir(parents=True)
        context = make_context(config, folder, None, ())  # seeds, sizes, worlds and data of this run
        journal = Journal(folder / "journal.jsonl")  # every event of the run, in order

        stage.admit(agent)  # new senses, heads and layers; what is there stays
        agent.config.stages = [*agent.config.stages, name]

        for lesson in stage.lessons(context):  # a learner improves the agent, batch by batch
            teach(lesson, max(1, round(share * lesson.steps)), agent, context, journal)
        round_to_half(agent)  # what is examined is what is stored

        for skill in stage.skills:  # in episodes that no lesson shows
            exam = examine_skill(stage, skill, agent, context)
            verdicts = {decision.measure: decision.verdict for decision in exam.verdict.decisions}  # of the gate
            for measure in exam.measures.values():
                bound = measure.interval()[0 if measure.higher_is_better else 1]  # what the gate reads, not the mean
                figures = [f"{one:.3f}" for one in (measure.score, bound, measure.chance, measure.floor)]
                report.append(ROW.format(name, measure.name, *figures, verdicts.get(measure.name, "no gate")))

        agent.save_pretrained(folder / "agent")  # a milestone: `devmind hello --agent` meets it
    return agent, report


if __name__ == "__main__":
    size, *names = sys.argv[1:] or ["nursery"]
    _, lines = raise_agent(tuple(names) or STAGES, load(size), Path("one-childhood"))
    print("\n".join(lines))
