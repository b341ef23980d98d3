"""The head that plans trades: it imagines prices and trades of the next ticks together, and keeps the best plan.

One denoiser (`imagining`, as of arranging and handling things) tells the steps of the price, in units of the volatility
that was seen, and a symbol for each tick: buy, sell or hold. Each candidate's symbols are judged on the prices of all
candidates, not on those that were imagined with them, by the market's own account; to trade never is a candidate too.
The plan with the best mean growth is kept in the agent's state, followed for a stride, and then made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.heads import Inlet
from devmind.agent.plans import Plan
from devmind.agent.rows import Carry, CarrySpec, Leaf
from devmind.agent.taps import Tapped
from devmind.algorithms.diffusion.pipeline import Watch
from devmind.errors import ConfigError
from devmind.worlds.market import SEEN, Costs
from stages.planning.imagining import Form, Imaginer
from stages.planning.keypoints import KeyPoints, PlanHead, plan_spec
from stages.planning.trade import HORIZON
from stages.planning.trade.plans import (
    ACCOUNT,
    FEATURES,
    FORM,
    HOLD,
    SHARE,
    SYMBOLS,
    log_growth,
    scene,
    volatility,
)

SIZES = {"width": 48, "layers": 2, "steps": 3, "word_steps": 3}


class PriceImaginer(Imaginer):
    """The same, whose noise comes in pairs that add up to nothing: so chance does not move the mean price of an even
    number of candidates (antithetic variates: Hammersley, Morton 1956)."""

    def chance(
        self, n: int, generator: torch.Generator | None, device: torch.device | None = None
    ) -> tuple[Tensor, Tensor]:
        noise, luck = super().chance(n, generator, device)
        half = noise[: (n + 1) // 2]
        return torch.stack((half, -half), 1).flatten(0, 1)[:n], luck


@dataclass(frozen=True)
class Weighed:
    """Candidates of B rows, and how they were judged; the last of N + 1 is never to trade.

    Attributes:
        steps: log returns that were imagined, float32 [B, N, H]. symbols: int64 [B, N + 1, H].
        marks: what net worth grows by on average over all paths, above never trading, float64 [B, N + 1].
        alone: the same on the candidate's own path, float64 [B, N + 1]; of never trading 0.
        chosen: int64 [B]. sure: log probability of the symbols, float32 [B, N + 1].
    """

    steps: Tensor
    symbols: Tensor
    marks: np.ndarray
    alone: np.ndarray
    chosen: Tensor
    sure: Tensor

    @property
    def path(self) -> Tensor:
        """The steps [B, H] that were imagined with the chosen plan; of never trading the mean of all."""
        n, rows = self.steps.shape[1], torch.arange(len(self.steps), device=self.steps.device)
        own = self.steps[rows, self.chosen.clamp_max(n - 1)]
        return torch.where((self.chosen == n)[:, None], self.steps.mean(1), own)


@dataclass
class TradePlan(KeyPoints):
    """The trade [..., 1], from returns [..., SEEN] as they are seen and the account [..., 3].

    Carried are plan [B, H, 1], log returns that were imagined with it, and symbols int64 [B, H]; int64 [B]: at, the
    tick that comes next, and made, plans so far; sure [B], log probability of the symbols; mark [B], what the plan was
    thought to grow by above never trading.
    """

    head: TradePlanHead
    returns: Tensor
    account: Tensor

    name: ClassVar[str] = "trade_plan"

    def sensed(self) -> Tensor:
        """Returns and account."""
        return torch.cat((self.returns, self.account), -1)

    def fires(self) -> Tensor:
        """Who senses prices and account answers, bool [...]."""
        return self.here

    def losses(
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """What is learned, by name, from log returns `steps` [..., S, H] of S continuations and `words` int64 [..., H],
        the plan that is right for all of them."""
        rows = self.here if mask is None else mask & self.here
        steps, words = target["steps"][rows], target["words"][rows]
        s = steps.shape[1]
        points = steps / volatility(self.returns[rows])[:, None, None]
        condition, present = (value[rows].repeat_interleave(s, 0) for value in (self.condition, self.present))
        words = words.repeat_interleave(s, 0)
        return self.head.imaginer.losses(condition, points.flatten(0, 1)[..., None], words, generator, present)

    def due(self, before: Carry) -> tuple[Tensor, dict[str, Tensor]]:
        """Where a stride is over."""
        return self.here & ((before["made"] == 0) | (before["at"] >= self.head.follow)), {}

    def plans(self, rows: Tensor, number: Tensor, generator: torch.Generator | None) -> dict[str, Tensor]:
        weighed, each = self.weighed(rows, number, generator), torch.arange(len(rows), device=rows.device)
        return {
            "plan": weighed.path[..., None],
            "symbols": weighed.symbols[each, weighed.chosen],
            "sure": weighed.sure[each, weighed.chosen],
            "mark": torch.from_numpy(weighed.marks).to(weighed.sure)[each, weighed.chosen],
        }

    def steer(self) -> Tensor:
        """The next symbol's trade."""
        at = self.carry["at"]
        symbol = self.carry["symbols"].gather(1, at.clamp_max(HORIZON - 1)[:, None])
        self.carry["at"] = at + (self.carry["made"] > 0).long()
        share = torch.as_tensor(SHARE, dtype=torch.float32, device=at.device)[symbol]
        return torch.where(self.here[:, None], share, 0.0)

    def weighed(
        self, rows: Tensor, number: Tensor, generator: torch.Generator | None = None, watch: Watch | None = None
    ) -> Weighed:
        """Draw and judge the candidates of these rows; `number` int64 [n], how many plans each had before."""
        n, b = self.head.candidates, len(rows)
        drawn = self.candidates(rows, number, generator, watch)
        steps = drawn.trajectory[..., 0].unflatten(0, (b, n)) * volatility(self.returns[rows])[:, None, None]
        symbols = F.pad(drawn.symbols.unflatten(0, (b, n)), (0, 0, 0, 1), value=HOLD)
        plans, paths, account = (value.cpu().numpy() for value in (symbols, steps, self.account[rows]))
        growth = log_growth(plans, paths, account, self.head.costs)
        above = growth - growth[:, -1:]
        marks = above.mean(-1)
        alone = np.pad(above[:, :n].diagonal(axis1=1, axis2=2), ((0, 0), (0, 1)))
        chosen = np.where(marks.max(1) > 0, marks.argmax(1), n)
        sure = F.pad(drawn.log_prob.unflatten(0, (b, n)), (0, 1))
        return Weighed(steps, symbols, marks, alone, torch.from_numpy(chosen).to(rows.device), sure)

    def word(self, symbol: int) -> str:
        """Of a trade; to hold says nothing."""
        return "" if symbol == HOLD else SYMBOLS[symbol]

    def planned(self, row: int = 0) -> Plan | None:
        """A market has no picture in which a plan could be drawn."""
        return None


class TradePlanHead(PlanHead):
    """Taps ("raw:returns", "raw:account"), in this order.

    Args:
        candidates: plans drawn, an even number, as noise comes in pairs.
        follow: ticks of a plan after which a new one is made.
        sizes: width, layers, attention_heads, steps, word_steps of the `Imaginer`; by default SIZES.

    Raises:
        ConfigError: it taps something else, or the numbers are none that go together.
    """

    form: ClassVar[Form] = FORM
    carry_spec: CarrySpec = plan_spec(FORM, mark=Leaf())
    lighter = ()
    costs: Costs = Costs()
    """By which plans are judged; which market it is nobody tells, so these are the usual ones."""

    def __init__(self, inlet: Inlet, candidates: int = 8, follow: int = 8, **sizes: Any) -> None:
        super().__init__(inlet)
        if inlet.n_tokens != 2 or inlet.width < SEEN:
            raise ConfigError("A head that plans trades taps ('raw:returns', 'raw:account'), in this order.")
        if candidates < 2 or candidates % 2 or not 1 <= follow <= HORIZON:
            raise ConfigError(
                f"A head that plans trades draws an even number of candidates, and follows a plan for 1 to {HORIZON} "
                f"ticks, which is what it has of them; got {candidates} and {follow}."
            )
        self.candidates, self.follow = candidates, follow
        self.imaginer = PriceImaginer(features=FEATURES, form=FORM, **{**SIZES, **sizes})

    def observe(self, tapped: Tapped) -> TradePlan:
        tokens = F.pad(tapped.tokens, (0, self.inlet.width - tapped.tokens.shape[-1]))
        here = tapped.present.all(-1)
        if tapped.known is not None:
            # Returns or an account that are half NaN are none: nothing is planned of them.
            wanted = torch.tensor([SEEN, ACCOUNT], device=here.device)
            here = here & (tapped.known >= wanted).all(-1)
        tokens = (tokens * here[..., None, None]).float()
        returns, account = tokens[..., 0, :SEEN], tokens[..., 1, :ACCOUNT]
        return TradePlan(self, scene(returns, account), here[..., None], here, returns, account)
