"""Nested state as a JSON tree plus named tensors, and back: a replacement for pickle that runs no code on loading."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from devmind.errors import CheckpointError

if TYPE_CHECKING:
    import torch

# In the tree every JSON object is a tag: {"dict": [[key, value], ...]}, {"tuple": [...]}, {"tensor": name} or
# {"float": "nan"}. So keys may be numbers (as those of an optimizer), and no key can be mistaken for a tag.


def split_tensors(state: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """Split `state` into a tree for JSON and its tensors by readable names; nothing is copied.

    Tensors, numbers, strings, None, lists, tuples and dicts may be nested freely. Subclasses are restored as their base
    type (an OrderedDict as a dict), and tensors that share memory as separate tensors.

    Raises:
        CheckpointError: the state holds anything else; the message says where.
    """
    tensors: dict[str, torch.Tensor] = {}
    return _split(state, "state", tensors), tensors


def _split(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return {"tensor": _keep(value, path, tensors)}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, list):
        return [_split(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [_split(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]}
    if isinstance(value, dict):
        pairs = [(_split(key, f"{path}/key", tensors), key, item) for key, item in value.items()]
        return {"dict": [[key, _split(item, f"{path}/{name}", tensors)] for key, name, item in pairs]}
    raise CheckpointError(
        f"Cannot save {path}: a state may hold tensors, numbers, strings, None, lists, tuples and dicts, got "
        f"{type(value).__module__}.{type(value).__qualname__}; turn it into one of those first."
    )


def _keep(tensor: torch.Tensor, path: str, tensors: dict[str, torch.Tensor]) -> str:
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise CheckpointError(f"Cannot save {path}: expected a dense tensor, got {tensor.layout} on {tensor.device}.")
    name = path if path not in tensors else f"{path}#{len(tensors)}"
    tensors[name] = tensor.detach()
    return name


def join(tree: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """The state that `split_tensors` has split.

    Raises:
        CheckpointError: the tree names a missing tensor, or has an unknown tag.
    """
    if isinstance(tree, list):
        return [join(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tag: str = next(iter(tree), "")
    content: Any = tree.get(tag)
    if tag == "dict":
        return {join(key, tensors): join(item, tensors) for key, item in content}
    if tag == "tuple":
        return tuple(join(item, tensors) for item in content)
    if tag == "float":
        return float(content)
    if tag == "tensor" and content in tensors:
        return tensors[content]
    raise CheckpointError(f"The saved state is inconsistent: it holds {str(tree)[:80]}; use an older one.")
