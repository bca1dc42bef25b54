"""Where the model files of the built-in tasks are: found in installed packages, never copied."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from canter import _core

# package -> folder of model files inside it
_PACKAGES = {"gymnasium": "envs/mujoco/assets"}


def find_model_path(name: str) -> str:
    """The model file of a registered task in an installed package.

    The package is located, not imported.

    Args:
        name: Name of the task, "HalfCheetah-v5".

    Returns:
        Its path; "" if the task needs no file, if `$CANTER_ASSET_PATH` has it (C++ looks there
        itself), or if no installed package has it.

    Raises:
        InvalidArgument: For an unknown name, with the nearest match.
    """
    file = _core.model_file(name)
    folders = os.environ.get("CANTER_ASSET_PATH", "").split(":")
    if not file or any(folder and Path(folder, file).is_file() for folder in folders):
        return ""
    for package, folder in _PACKAGES.items():
        spec = importlib.util.find_spec(package)
        for location in (spec.submodule_search_locations if spec else None) or []:
            path = Path(location, folder, file)
            if path.is_file():
                return str(path)
    return ""
