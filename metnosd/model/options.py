"""How a model is loaded, and the ever safer ways to load it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

MODES = ("normal", "no_extra_bufts", "cpu_only")
"""Ways to load, each safer than the one before; the next is tried when a self-test dies by a signal."""


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to load a model.

    `gpu_layers`: -1 puts all layers on a GPU where the build has one. `extra_bufts` allows repacked weights,
    which crash on AMX inside a virtual machine (llama.cpp issue 20824). `batch` bounds the tokens of one
    decode call, and so how long the process stays silent.
    """

    path: Path
    template: str = "chatml"
    n_ctx: int = 8192
    gpu_layers: int = -1
    threads: int = field(default_factory=usable_cores)
    extra_bufts: bool = True
    batch: int = 256


def in_mode(options: EngineOptions, mode: str) -> EngineOptions:
    """`options` made as safe as `mode` asks."""
    if mode == "no_extra_bufts":
        return replace(options, extra_bufts=False)
    if mode == "cpu_only":
        return replace(options, extra_bufts=False, gpu_layers=0)
    return options
