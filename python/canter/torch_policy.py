"""TorchPolicy: imported when it is asked for, since it brings LibTorch along."""

from __future__ import annotations

# LibTorch must be loaded as torch loads it, before the module that links it
import torch  # noqa: F401

from canter import _core

try:
    from canter._torch import TorchPolicy
except ModuleNotFoundError as error:
    raise _core.Error(
        "this build of canter has no canter._torch: build it from source beside torch with "
        "-DCANTER_TORCH=ON"
    ) from error

__all__ = ["TorchPolicy"]
