"""``attnflow doctor``: what is installed, where models and caches are, and whether it works."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from attnflow import __version__
from attnflow.cli.streams import echo

NEEDED = (
    *("torch", "transformers", "numpy", "numba", "matplotlib", "fastapi", "uvicorn"),
    *("pyarrow", "rich", "typer", "threadpoolctl"),
)
# What is installed on request, and what it is for.
OPTIONAL = {
    "cupy": ("flow on a GPU", "attnflow[cuda]"),
    "ray": ("runs on several machines", "attnflow[ray]"),
    "anywidget": ("a widget in notebooks", "attnflow[notebook]"),
    "attnflow-experiments": ("bench, reproduce and train", "attnflow[experiments]"),
    "accelerate": ("models spread over devices, and quantised ones", "accelerate"),
    "bitsandbytes": ("weights in 8 and 4 bits", "bitsandbytes"),
    "gguf": ("GGUF files", "gguf"),
    "sentencepiece": ("tokenizers of some older models", "sentencepiece"),
    "peft": ("adapters such as LoRA", "peft"),
    "pandas": ("tables as DataFrames", "pandas"),
}
SENTENCE = "The food was not good."
Found = dict[str, str]


def doctor() -> None:
    """Report what is installed, where models and caches are, and whether a GPU can be used.

    The last line explains a sentence with a shipped model; the exit code is 1 if that fails.

    Example: attnflow doctor
    """
    report = {
        "program": _program(),
        "packages": {name: _version(name) or "missing" for name in NEEDED},
        "optional": dict(_optional()),
        "devices": _devices(),
        "folders": _folders(),
        "models": _models(),
    }
    works, told = _try()
    report["trial"] = {"explain": told}
    width = max(len(name) for section in report.values() for name in section)
    for title, section in report.items():
        echo(title)
        for name, value in section.items():
            echo(f"  {name:{width}}  {value}")
    if not works:
        raise typer.Exit(1)


def _program() -> Found:
    return {
        "attnflow": f"{__version__}, in {Path(__file__).parents[1]}",
        "python": f"{platform.python_version()}, {sys.executable}",
        "system": f"{platform.platform()}, {len(_cores())} cores",
    }


def _cores() -> set[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _optional() -> Iterator[tuple[str, str]]:
    for name, (what, wanted) in OPTIONAL.items():
        builds = ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x") if name == "cupy" else ()
        found = next(filter(None, map(_version, (name, *builds))), None)
        yield name, found or f"not installed; for {what}: pip install '{wanted}'"


def _devices() -> Found:
    import torch

    from attnflow.solvers.cuda.device import why_not

    names = [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("Apple's GPU")
    missing = why_not()
    return {
        "models": ", ".join([*names, "the CPU"]),
        "flow": "the CPU" if missing else "the GPU and the CPU",
        **({"flow on a GPU": missing} if missing else {}),
        "threads": f"{torch.get_num_threads()} for models",
    }


def _folders() -> Found:
    from huggingface_hub import constants
    from numba import config

    kernels = getattr(config, "CACHE_DIR", "") or "beside the installed package"
    offline = " (offline: HF_HUB_OFFLINE is set)" if constants.HF_HUB_OFFLINE else ""
    return {
        "models of the hub": f"{constants.HF_HUB_CACHE}{offline}",
        "compiled kernels": str(kernels),
    }


def _models() -> Found:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    from attnflow.shipped import NAMES

    shipped = dict.fromkeys(NAMES, "shipped with attnflow")
    try:
        cached = [each for each in scan_cache_dir().repos if each.repo_type == "model"]
    except CacheNotFound:
        cached = []
    return shipped | {
        each.repo_id: f"{each.size_on_disk_str} in the hub's cache"
        for each in sorted(cached, key=lambda each: each.repo_id)
    }


def _try() -> tuple[bool, str]:
    """Whether a sentence can be explained, and what came out."""
    from attnflow.api.explain import explain

    try:
        start = time.perf_counter()
        first = explain(SENTENCE)
        loaded = time.perf_counter()
        explain(SENTENCE)
    except Exception as error:  # noqa: BLE001 - any failure is the finding
        return False, f"failed: {type(error).__name__}: {error}"
    label = "nothing" if first.prediction is None else first.prediction.label
    took, again = loaded - start, time.perf_counter() - loaded
    found = f"“{SENTENCE}” is {label}, mostly from “{first.top(1)[0][0]}”"
    return True, f"{found}; {took:.1f} s with loading, then {again:.2f} s"
