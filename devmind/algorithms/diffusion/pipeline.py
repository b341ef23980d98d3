"""Drawing plans: both halves are denoised side by side, given parts held fixed; saved as a diffusers pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import DiffusionPipeline
from torch import Tensor

from devmind import bounds
from devmind.algorithms.diffusion.denoiser import HybridDenoiser, TokenDenoiser
from devmind.algorithms.diffusion.schedules import (
    SCHEDULERS,
    MaskedTokens,
    add_noise,
    denoise_step,
    is_flow,
    level_of,
    set_steps,
)
from devmind.errors import CheckpointError, ConfigError

DENOISERS: dict[str, type[HybridDenoiser | TokenDenoiser]] = {
    kind.__name__: kind for kind in (HybridDenoiser, TokenDenoiser)
}
"""Networks that a pipeline may have, by name."""

Watch = Callable[[int, Tensor, Tensor, Tensor], None]
"""`(step, noised trajectory, predicted clean trajectory, symbols)`, for films."""


@dataclass(frozen=True)
class SampledPlans:
    """Plans: trajectory [B, H, C], symbols int64 [B, L], and the network's log probability [B] of the symbols."""

    trajectory: Tensor
    symbols: Tensor
    log_prob: Tensor

    def rows(self, index: Tensor) -> SampledPlans:
        """Some of them."""
        return SampledPlans(self.trajectory[index], self.symbols[index], self.log_prob[index])


@dataclass(frozen=True)
class FixedParts:
    """The given parts of plans.

    Points [B, H, C] are given where `fixed`, bool [B, H], is true. Symbols int64 [B, L] are the mask where none is
    given.
    """

    points: Tensor
    fixed: Tensor
    symbols: Tensor

    @classmethod
    def of(
        cls, form: Any, n: int, device: torch.device, given: Mapping[int, Tensor], words: Mapping[int, Tensor]
    ) -> FixedParts:
        """The given parts of `n` plans for a denoiser of the configuration `form`; see `HybridPipeline.__call__`.

        Raises:
            ConfigError: a point or symbol lies beyond the plan's end.
        """
        points = torch.zeros(n, form.horizon, form.channels, device=device)
        fixed = torch.zeros(n, form.horizon, dtype=torch.bool, device=device)
        for at, value in given.items():
            place = _place(at, form.horizon, "point")
            points[:, place], fixed[:, place] = value.to(points.dtype), True
        symbols = torch.full((n, form.length), form.words, device=device)
        for at, word in words.items():
            symbols[:, _place(at, form.length, "symbol")] = word
        return cls(points, fixed, symbols)

    def rows(self, index: Tensor) -> FixedParts:
        """The same for some plans; a row may be named several times."""
        return FixedParts(self.points[index], self.fixed[index], self.symbols[index])

    def over(self, trajectory: Tensor) -> Tensor:
        """Trajectories [B, H, C] with the given points in place of their own."""
        return torch.where(self.fixed[..., None], self.points, trajectory)


class HybridPipeline(DiffusionPipeline):
    """A denoiser with its schedulers. `save_pretrained` is diffusers' own; this class's `from_pretrained` loads it."""

    def __init__(self, denoiser: HybridDenoiser | TokenDenoiser, scheduler: Any, token_scheduler: MaskedTokens) -> None:
        super().__init__()
        self.register_modules(denoiser=denoiser, scheduler=scheduler, token_scheduler=token_scheduler)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **kwargs: Any) -> HybridPipeline:
        """The pipeline saved in a folder; it reads nothing else, and runs no code of the folder.

        Raises:
            CheckpointError: the folder holds no pipeline of this kind.
        """
        index = Path(folder) / "model_index.json"
        kinds: dict[str, Any] = {kind.__name__: kind for kind, _ in SCHEDULERS.values()}
        sentence = f"There is no hybrid pipeline in '{folder}' that can be read: {{}}"
        if not index.is_file():
            raise CheckpointError(sentence.format(f"{index.name} is missing."))
        parts = bounds.parse_json(bounds.read_file(index, CheckpointError), CheckpointError, sentence)
        try:
            name, network = parts["scheduler"][1], DENOISERS[parts["denoiser"][1]]
            return cls(
                network.from_pretrained(Path(folder) / "denoiser", low_cpu_mem_usage=False),
                kinds[name].from_pretrained(Path(folder) / "scheduler"),
                MaskedTokens.from_pretrained(Path(folder) / "token_scheduler"),
            )
        except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
            raise CheckpointError(f"There is no hybrid pipeline in '{folder}' that can be read: {error}") from error

    @torch.no_grad()
    def __call__(
        self,
        condition: Tensor,
        present: Tensor,
        noise: Tensor,
        given: Mapping[int, Tensor] | None = None,
        words: Mapping[int, Tensor] | None = None,
        steps: int = 10,
        start: Tensor | None = None,
        begin: float = 1.0,
        guidance: float = 1.0,
        watch: Watch | None = None,
        luck: Tensor | None = None,
        with_symbols: bool = True,
        words_first: int = 0,
        guide: Callable[[Tensor], Tensor] | None = None,
        choose: Callable[[Tensor], Tensor] | None = None,
    ) -> SampledPlans:
        """Draw a plan for each row.

        Args:
            condition: [B, K, D]; present: bool [B, K].
            noise: standard normal [B, H, C], from which the plans are made.
            given: points that are held, {number: [B, C]}; negative numbers count from the end.
            words: symbols that are held, {number: int64 [B]}.
            steps: denoising steps, at most the number of levels in training.
            start: plans [B, H, C] to begin from, noised to the level `begin` in 0..1; this takes that share of the
                steps.
            guidance: weight of the condition (classifier-free guidance); 1: as in training.
            luck: Gumbel noise [B, L, words] by which symbols are drawn; without it, the likeliest are taken.
            words_first: steps in which all symbols are drawn before the first step of the trajectory; 0: both go side
                by side. If two ways are equally good, symbols drawn first choose one and the trajectory follows; side
                by side, a few steps lead to the mean of both.
            guide: improves the clean trajectories [B, H, C] that each step predicts (classifier guidance: Dhariwal,
                Nichol 2021); held points stay.
            with_symbols: False leaves all symbols masked that are not given: only the trajectory is drawn.
            choose: gives the rows, int64 [n], whose trajectories are drawn, by the log probabilities [B] of their
                symbols; the result has these rows alone.

        Raises:
            ConfigError: there are more steps than levels, a point or symbol lies beyond the plan's end, the noise has
                another horizon, or rows are to be chosen by symbols that are drawn side by side with the trajectory.
        """
        form = self.denoiser.config
        if noise.shape[1:] != (form.horizon, form.channels):
            raise ConfigError(
                f"This denoiser was taught plans of {form.horizon} points of {form.channels} numbers, no longer ones; "
                f"got {list(noise.shape[1:])}."
            )
        n, device = len(noise), noise.device
        held = FixedParts.of(form, n, device, given or {}, words or {})
        set_steps(self.scheduler, steps, device)
        self.token_scheduler.set_timesteps(words_first or steps, (0, 0), device)
        x, timesteps = noise, list(self.scheduler.timesteps)
        if start is not None:
            skipped = steps - max(1, round(begin * steps))
            x, timesteps = self._begun(start, noise, skipped), timesteps[skipped:]
        symbols, log_prob = held.symbols, torch.zeros(n, device=device)
        with_symbols = with_symbols and form.length > 0
        first = words_first if with_symbols else 0
        if choose is not None and with_symbols and not first:
            raise ConfigError("Rows are chosen by symbols that are drawn before the trajectory: give `words_first`.")
        denoise = self._conditioned(condition, present, guidance)
        # Steps numbered below 0 draw symbols only.
        for number, timestep in enumerate([timesteps[0]] * first + timesteps, -first):
            if choose is not None and not number:
                rows = choose(log_prob)
                x, symbols, log_prob, held = x[rows], symbols[rows], log_prob[rows], held.rows(rows)
                n, denoise = len(rows), self._conditioned(condition[rows], present[rows], guidance)
            x = held.over(x)
            masked = (symbols == form.words).float().mean(-1) if form.length else x.new_zeros(n)
            level = level_of(self.scheduler, timestep.float()).expand(n)
            clean, logits = denoise(x, held.fixed, level, symbols, masked)
            if guide is not None and number >= 0:
                clean = guide(clean)
            clean = held.over(clean)
            left = (0 if words_first else len(timesteps)) - 1 - number
            if with_symbols and left >= 0:
                drawn = logits if luck is None else logits + luck
                before, symbols = symbols, self.token_scheduler.step(drawn, left, symbols).prev_sample
                log_prob = log_prob + self.token_scheduler.log_prob(logits, before, symbols)
            if watch is not None:
                watch(number + first, x, clean, symbols)
            if number >= 0:
                x = denoise_step(self.scheduler, clean, timestep, x)
        # Not `x`: if the steps do not divide the levels, DDIM's last step goes to the lowest level, not to no noise.
        return SampledPlans(clean, symbols, log_prob)

    def _conditioned(self, condition: Tensor, present: Tensor, guidance: float) -> Callable[..., tuple[Tensor, Tensor]]:
        """The network as a function of (x, fixed, level, symbols, masked), with classifier-free guidance.

        The hint of the condition is the same in all steps, and is computed once.
        """
        network = self.denoiser

        def under(there: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
            hint = network.hint(condition, there)
            return lambda *noisy: network(*noisy, condition, there, hint=hint)

        conditioned = under(present)
        if guidance == 1.0:
            return conditioned
        unconditioned = under(torch.zeros_like(present))

        def guided(*noisy: Tensor) -> tuple[Tensor, Tensor]:
            (clean, logits), (free, free_logits) = conditioned(*noisy), unconditioned(*noisy)
            return free + guidance * (clean - free), free_logits + guidance * (logits - free_logits)

        return guided

    def _begun(self, start: Tensor, noise: Tensor, skipped: int) -> Tensor:
        """Plans `start` [B, H, C], noised to the level at which the scheduler continues after `skipped` steps."""
        timestep = self.scheduler.timesteps[skipped]
        index = timestep.round().long() - 1 if is_flow(self.scheduler) else timestep.long()
        x, _ = add_noise(self.scheduler, start, noise, index.clamp_min(0).expand(len(start)))
        if hasattr(self.scheduler, "set_begin_index"):  # of solvers that count their steps
            self.scheduler.set_begin_index(skipped)
        return x


def _place(at: int, n: int, what: str) -> int:
    if not -n <= at < n:
        raise ConfigError(f"A plan has {n} {what}s, so the {what} {at} cannot be given; the last one is {n - 1}.")
    return at % n
