"""Rollouts of a countable toy: a child counts up, its value is its count, and it ends at a number of its own."""

import pytest
import torch

from devmind.algorithms.rollout import Step, collect, rows

ENDS_AT = torch.tensor([3, 5, 100])


class Counter:
    """Observation [3, 1] = the count. Child 0 is terminal at 3, child 1 truncated at 5, child 2 goes on."""

    def __init__(self, autoreset):
        self.count, self.autoreset = torch.zeros(3, dtype=torch.long), autoreset

    def step(self, action):
        assert action.shape == (3,)
        self.count = self.count + 1
        led_to = self.count.float().unsqueeze(1)
        ended = self.count == ENDS_AT
        if self.autoreset:
            self.count = torch.where(ended, 0, self.count)
        terminal = ended & torch.tensor([True, False, False])
        truncated = ended & ~terminal
        next_observation = led_to if self.autoreset and ended.any() else None
        return Step(self.count.float().unsqueeze(1), led_to.squeeze(1), terminal, truncated, next_observation)


def run(autoreset, length=7):
    def policy(observation, generator):
        n = len(observation)
        return torch.zeros(n, dtype=torch.long), torch.full((n,), -0.5), 10 * observation.squeeze(1)

    def value_of(observation):
        return 10 * observation.squeeze(1)

    start = torch.zeros(3, 1)
    return collect(policy, value_of, Counter(autoreset).step, start, length, torch.Generator(), autoreset=autoreset)


def test_truncated_steps_bootstrap_from_before_the_reset():
    rollout, observation = run(autoreset=True)
    assert rollout.observation.squeeze(2).T.tolist() == [
        [0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 4, 0, 1], [0, 1, 2, 3, 4, 5, 6],
    ]  # fmt: skip
    alive = ~rollout.terminal
    assert torch.equal(rollout.next_value[alive], 10 * rollout.reward[alive])  # in this toy reward = the count led to
    assert rollout.next_value[4, 1] == 50
    assert rollout.last.nonzero().tolist() == [[2, 0], [4, 1], [5, 0]]
    assert rollout.mask.all()
    assert observation.squeeze(1).tolist() == [1, 2, 7]


def test_without_reset_the_steps_after_the_end_are_masked():
    rollout, _ = run(autoreset=False)
    assert rollout.mask.sum(0).tolist() == [3, 5, 7]
    assert rollout.mask[:3].all()
    assert rollout.next_value[4, 1] == 50


def test_senses_and_effectors_may_be_dicts():
    def policy(observation, generator):
        n = len(observation["body"])
        return {"push": torch.arange(n)}, torch.zeros(n), observation["body"].sum(1)

    def step(action):
        no = torch.zeros(2, dtype=torch.bool)
        return Step({"body": action["push"].float().unsqueeze(1).expand(2, 4)}, torch.ones(2), no, no)

    rollout, _ = collect(policy, lambda o: o["body"].sum(1), step, {"body": torch.zeros(2, 4)}, 3, torch.Generator())
    assert rollout.observation["body"].shape == (3, 2, 4)
    assert rollout.next_value.tolist() == [[0, 4]] * 3
    chosen = rows(rollout.observation, torch.tensor([3, 0]))["body"]
    assert chosen[:, 0].tolist() == [1, 0]


def test_nothing_collected_carries_a_gradient():
    weight = torch.ones(1, requires_grad=True)

    def policy(observation, generator):
        return torch.zeros(2), weight * observation[:, 0], weight * observation[:, 0]

    no = torch.zeros(2, dtype=torch.bool)
    rollout, _ = collect(
        policy, lambda o: weight * o[:, 0], lambda a: Step(torch.ones(2, 1), torch.ones(2), no, no),
        torch.ones(2, 1), 2, torch.Generator(),
    )  # fmt: skip
    assert not any(tensor.requires_grad for tensor in (rollout.log_prob, rollout.value, rollout.next_value))


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2)])
def test_rows_count_time_first(shape):
    tensor = torch.arange(torch.tensor(shape).prod().item()).reshape(shape)
    assert torch.equal(rows(tensor, torch.tensor([5])), tensor[1, 2].unsqueeze(0))
