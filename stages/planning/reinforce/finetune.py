"""Teaching the planner's denoiser by the returns of plans: advantage-weighted regression (AWR: Peng et al. 2019).

It learns plans as in the lesson, but more often those whose return was above the value expected at their beginning.
With values by implicit Q-learning this is offline reinforcement: a row of the exam of `route` says what it gives.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.algorithms.implicit_q import advantage_weights
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from stages.planning.parts import STRIDE
from stages.planning.reinforce.plans import Plans, draw_plans, teach
from stages.planning.reinforce.values import DISCOUNT, StrideValues, teach_values
from stages.planning.route.trips import Trips

TEMPERATURE = 1.0
"""Temperature of advantages, in strides."""
VALUE_STEPS, PLANS, STEPS, ROWS, RATE = 1000, 2000, 100, 64, 1e-4
"""Steps of the values, plans drawn, and steps of the planner with their rows and rate."""


def advantages(values: StrideValues, plans: Plans) -> Tensor:
    """By how many strides each way [N] was shorter than the value expected at its beginning."""
    gone = plans.ticks / STRIDE
    with torch.no_grad():
        expected = values.value(plans.place, plans.goal, plans.maze)
    return -(1 - DISCOUNT**gone) / (1 - DISCOUNT) - expected


def weights(values: StrideValues, plans: Plans) -> Tensor:
    """Relative frequency with which each plan [N] is to be learned."""
    return advantage_weights(advantages(values, plans), TEMPERATURE, 20.0)


def reinforced(agent: Agent, data: Trips, context: Context) -> Agent:
    """A copy of the agent whose planner has learned from these trips by values and advantages."""
    # An exam runs in inference mode; this learns now.
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        pupil, values = copy.deepcopy(agent), StrideValues().to(agent.device)
        teach_values(values, [data], context.scaled(VALUE_STEPS), numpy_rng(context.seed, "values", data.maze))
        plans = draw_plans([data], context.scaled(PLANS), numpy_rng(context.seed, "plans", data.maze)).to(agent.device)
        teach(pupil, plans, context.scaled(STEPS), ROWS, RATE, context.seed, weights(values, plans))
    return pupil
