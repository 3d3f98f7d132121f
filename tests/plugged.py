"""The kind of model of `numbers_kind`, registered as users register theirs."""

import sys
from contextlib import contextmanager
from pathlib import Path

import torch

from attnflow.models.kinds import MODEL_KINDS
from attnflow.models.loading import _load_once
from attnflow.registry import load_plugin

PLUGIN = str(Path(__file__).parent / "numbers_kind.py")


@contextmanager
def numbers():
    """The file as a module, loaded and registered while inside."""
    before = set(sys.modules)
    load_plugin(PLUGIN)
    (name,) = {each for each in set(sys.modules) - before if "attnflow_plugin" in each}
    try:
        yield sys.modules[name]
    finally:
        MODEL_KINDS.unregister("numbers")
        del sys.modules[name]
        _load_once.cache_clear()


def save_numbers(plugin, folder):
    """A checkpoint of such a model, without a tokenizer."""
    torch.manual_seed(0)
    plugin.NumbersModel(plugin.NumbersConfig()).eval().save_pretrained(folder)
    return str(folder)
