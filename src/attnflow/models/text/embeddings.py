"""Reading and changing word embeddings on their way into a network, without hooks.

A torch-function mode is seen by the thread that entered it alone: other threads that run the same
network at the same time get their own embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.overrides import TorchFunctionMode


class EmbeddingEdit(TorchFunctionMode):
    """A context in which a function changes the word embeddings that a module has for ``ids``.

    The function gets ``[batch, position, dimension]``, also where a model looks the words up with
    its positions first.
    """

    def __init__(self, module: Any, ids: Tensor, edit: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.module = module
        self.ids = ids
        self.edit = edit
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Change what is looked up in the table; leave all other calls as they are."""
        result = func(*args, **(kwargs or {}))
        # An offloaded table is another tensor whenever the module runs, and maybe elsewhere.
        if func is F.embedding and _table(args, kwargs or {}) is self.module.weight:
            looked_up = args[0] if args else (kwargs or {})["input"]
            ids = self.ids.to(looked_up.device)
            if looked_up.shape == ids.shape and torch.equal(looked_up, ids):
                self.count += 1
                return self.edit(result)
            if looked_up.shape == ids.T.shape and torch.equal(looked_up, ids.T):
                self.count += 1
                return self.edit(result.transpose(0, 1)).transpose(0, 1)
        return result


def _table(args: Any, kwargs: Any) -> Any:
    return args[1] if len(args) > 1 else kwargs.get("weight")
