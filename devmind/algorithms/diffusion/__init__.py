"""Hybrid diffusion: one network denoises a trajectory (Gaussian) and a plan in symbols (masked) together.

Hoeg, Vaaler, Liu, Egeland, Du (arXiv 2509.21983). `denoiser` has the networks, `schedules` adapts diffusers'
schedulers, and `pipeline` draws plans, fills in what is not given, saves and loads.
"""

from devmind.algorithms.diffusion.denoiser import SPREAD_OUT, HybridDenoiser, TokenDenoiser, spread_out
from devmind.algorithms.diffusion.pipeline import HybridPipeline, SampledPlans
from devmind.algorithms.diffusion.schedules import SCHEDULERS, MaskedTokens, make_scheduler

__all__ = [
    "SCHEDULERS",
    "SPREAD_OUT",
    "HybridDenoiser",
    "HybridPipeline",
    "MaskedTokens",
    "SampledPlans",
    "TokenDenoiser",
    "make_scheduler",
    "spread_out",
]
