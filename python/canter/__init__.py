"""canter: robot policies trained with PPO on many MuJoCo simulations at once, on ordinary CPUs.

Vectorised environments, the learner and checkpoints are C++ (`canter._core`); this package gives
them NumPy arrays, progress, pictures and a command line.

Examples:
    >>> import canter
    >>> pool = canter.make_pool("CartPole-v1", num_envs=16, seed=7)
    >>> policy = canter.MlpPolicy(pool.spec, hidden=[64, 64], seed=7)
    >>> trainer = canter.Trainer(pool, policy, ppo=canter.PpoOptions(horizon=32))
    >>> report = trainer.iterate()
    >>> report.env_steps
    512
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from canter._core import (
    Box,
    CheckpointError,
    CheckpointOptions,
    CommunicationError,
    Discrete,
    EnvError,
    EnvPool,
    EnvState,
    Error,
    EvaluateOptions,
    Evaluation,
    InvalidArgument,
    MlpPolicy,
    MlpPolicyOptions,
    ModelError,
    ObservationGroup,
    Policy,
    PoolOptions,
    PoolStatistics,
    PpoOptions,
    Report,
    RunOptions,
    Spec,
    StepResult,
    Trainer,
    preset_names,
    registered_tasks,
    usable_cores,
)
from canter.evaluation import evaluate
from canter.pools import make_pool
from canter.runs import Run
from canter.training import train

if TYPE_CHECKING:
    from canter.tensorboard import TensorBoard as TensorBoard
    from canter.torch_policy import TorchPolicy as TorchPolicy
    from canter.vector_env import VectorEnv as VectorEnv

__version__ = "0.1.0"

__all__ = [
    "Box",
    "CheckpointError",
    "CheckpointOptions",
    "CommunicationError",
    "Discrete",
    "EnvError",
    "EnvPool",
    "EnvState",
    "Error",
    "EvaluateOptions",
    "Evaluation",
    "InvalidArgument",
    "MlpPolicy",
    "MlpPolicyOptions",
    "ModelError",
    "ObservationGroup",
    "Policy",
    "PoolOptions",
    "PoolStatistics",
    "PpoOptions",
    "Report",
    "Run",
    "RunOptions",
    "Spec",
    "StepResult",
    "Trainer",
    "cmake_dir",
    "evaluate",
    "make_pool",
    "preset_names",
    "registered_tasks",
    "train",
    "usable_cores",
]


def cmake_dir() -> str:
    """Prefix of the C++ library inside this package, for `-DCMAKE_PREFIX_PATH=...`."""
    return str(Path(__file__).resolve().parent)


# what needs gymnasium, tensorboard or torch is imported when it is asked for
_LAZY = {
    "TensorBoard": "canter.tensorboard",
    "TorchPolicy": "canter.torch_policy",
    "VectorEnv": "canter.vector_env",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'canter' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
