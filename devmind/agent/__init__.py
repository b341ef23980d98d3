"""The agent: encoders, trunk and heads, run tick by tick with a state or all at once on a batch."""

from __future__ import annotations

from typing import Any

_EXPORTS = {
    "Agent": "agent",
    "StepOutput": "agent",
    "AgentConfig": "config",
    "SIZES": "config",
    "collate": "batch",
    "collate_tick": "batch",
    "Encoded": "encoders",
    "Encoder": "encoders",
    "Head": "heads",
    "Output": "output",
    "Perceived": "taps",
    "State": "state",
    "Tapped": "taps",
    "stepping_threads": "threads",
    "training_threads": "threads",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Import a public name on first use: torch and transformers take seconds."""
    if name not in _EXPORTS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
