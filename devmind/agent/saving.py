"""Agents on disk: `config.json`, `model.safetensors` and `checksums.json` in one folder; never pickle.

A part whose plugin is missing stays in the config and its tensors are written back as they were read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from devmind.agent.config import FORMAT_VERSION, AgentConfig
from devmind.errors import CheckpointError

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

CONFIG, WEIGHTS, CHECKSUMS = "config.json", "model.safetensors", "checksums.json"


def hash_tensors(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes, independent of order and device."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous().cpu()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, data: bytes) -> None:
    """Write by temporary name, fsync and rename: the file is the old one or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError(f"There is no agent in '{path.parent}': the file {path.name} is missing.")
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(f"The file '{path}' is damaged: it is not JSON ({error}). Take a backup.") from error


def check_folder(folder: Path) -> dict[str, Any]:
    """The config of a saved agent, after its version and every file's checksum were verified.

    Raises:
        CheckpointError: a file is missing or damaged, or the folder is of a newer version.
    """
    config = _read_json(folder / CONFIG)
    version = config.get("devmind_version", 0)
    if config.get("model_type") != AgentConfig.model_type:
        raise CheckpointError(f"'{folder}' holds a model of type '{config.get('model_type')}', not a devmind agent.")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"The agent in '{folder}' is of format {version}, this devmind reads up to {FORMAT_VERSION}: update devmind."
        )
    for name, wanted in _read_json(folder / CHECKSUMS).items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"The agent in '{folder}' is incomplete: the file {name} is missing.")
        if hash_file(path) != wanted:
            raise CheckpointError(
                f"The file '{path}' is damaged: its checksum differs from the one in {CHECKSUMS}. Take a backup."
            )
    return config


class SavingMixin:
    """save_pretrained, from_pretrained and sha256 of the agent, in place of transformers' own."""

    def all_tensors(self: Agent) -> dict[str, Tensor]:  # type: ignore[misc]
        """Every tensor that is saved: the agent's own, and those kept for parts whose plugin is missing."""
        return {**self.state_dict(), **self.kept_tensors}

    def sha256(self: Agent, prefix: str = "") -> str:  # type: ignore[misc]
        """SHA-256 of the weights; with a prefix such as "encoders.sight." of that part only."""
        return hash_tensors({name: value for name, value in self.all_tensors().items() if name.startswith(prefix)})

    def save_pretrained(self: Agent, save_directory: str | os.PathLike[str], **kwargs: Any) -> None:  # type: ignore[misc]
        """Write config, weights and checksums into `save_directory`, which is made if needed.

        Raises:
            CheckpointError: the folder cannot be written.
        """
        from safetensors.torch import save

        folder = Path(save_directory)
        self.config.architectures = [type(self).__name__]
        tensors = {name: value.detach().contiguous().cpu() for name, value in self.all_tensors().items()}
        files = {
            WEIGHTS: save(tensors, metadata={"format": "pt"}),
            CONFIG: self.config.to_json_string(use_diff=False).encode(),
        }
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                _write(folder / name, data)
            _write(folder / CHECKSUMS, (json.dumps(sums, indent=2) + "\n").encode())
        except OSError as error:
            raise CheckpointError(f"The agent cannot be saved in '{folder}': {error.strerror or error}.") from error

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, strict: bool = False, **kwargs: Any
    ) -> Self:
        """The agent saved in a folder.

        Args:
            strict: a part whose plugin is missing is an error; otherwise it is left out with one warning.

        Raises:
            CheckpointError: a file is missing or damaged, or of a newer version.
            PluginError: a plugin is missing and `strict` is set.
        """
        from safetensors.torch import load_file

        folder = Path(pretrained_model_name_or_path)
        config = AgentConfig.from_dict(check_folder(folder))
        agent = cls(config, strict=strict)  # type: ignore[call-arg]
        _load_tensors(agent, load_file(folder / WEIGHTS), folder)  # type: ignore[arg-type]
        agent.eval()  # type: ignore[attr-defined]
        return agent


def _missing_prefixes(agent: Agent) -> tuple[str, ...]:
    return tuple(
        f"{kind}.{entry['name']}."
        for kind, entries, modules in (
            ("encoders", agent.config.encoders, agent.encoders),
            ("heads", agent.config.heads, agent.heads),
        )
        for entry in entries
        if entry["name"] not in modules
    )


def _load_tensors(agent: Agent, tensors: dict[str, Tensor], folder: Path) -> None:
    prefixes = _missing_prefixes(agent)
    agent.kept_tensors = {name: value for name, value in tensors.items() if prefixes and name.startswith(prefixes)}
    mine = {name: value for name, value in tensors.items() if name not in agent.kept_tensors}
    try:
        agent.load_state_dict(mine, strict=True)
    except RuntimeError as error:
        raise CheckpointError(f"The weights in '{folder}' do not fit its config: {error}") from error


def register_auto_classes() -> None:
    """Let transformers' AutoConfig and AutoModel load agents; call it once before using them."""
    from transformers import AutoConfig, AutoModel

    from devmind.agent.agent import Agent

    AutoConfig.register(AgentConfig.model_type, AgentConfig, exist_ok=True)
    AutoModel.register(AgentConfig, Agent, exist_ok=True)
