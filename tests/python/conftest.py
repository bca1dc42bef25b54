import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import canter

PACKAGE_PARENT = str(Path(canter.__file__).parent.parent)


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code or a module in a fresh process of this interpreter, outside the repository."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, (PACKAGE_PARENT, os.environ.get("PYTHONPATH"))))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            **options,
        )

    return run


@pytest.fixture
def make_trainer() -> Callable[..., canter.Trainer]:
    """A trainer on CartPole that learns in a blink."""

    def make(directory: Path | None = None, num_envs: int = 8, **options: object) -> canter.Trainer:
        pool = canter.make_pool("CartPole-v1", num_envs=num_envs, seed=1, num_threads=1)
        policy = canter.MlpPolicy(pool.spec, hidden=[16], seed=1)
        ppo = canter.PpoOptions(horizon=16, num_minibatches=2, num_epochs=2)
        return canter.Trainer(pool, policy, ppo=ppo, directory=directory, **options)

    return make
