"""What `import canter` brings along, in every order (case C52)."""

import itertools
import subprocess

import pytest

SMOKE = """
import canter, numpy as np
pool = canter.make_pool("InvertedPendulum-v5", num_envs=2)
pool.reset()
for _ in range(10):
    step = pool.step(np.zeros((2, 1)))
assert np.isfinite(step.observations).all()
"""
HEAVY = ("torch", "gymnasium", "matplotlib", "mujoco", "tqdm", "tensorboard", "imageio_ffmpeg")


def test_nothing_heavy(run_python: object) -> None:
    code = f"{SMOKE}\nimport sys\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    result: subprocess.CompletedProcess[str] = run_python("-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[]\n"


def test_lazy_names(run_python: object) -> None:
    code = """
import sys, canter
assert "VectorEnv" in dir(canter) and "TensorBoard" in dir(canter)
assert "gymnasium" not in sys.modules
assert canter.VectorEnv.__name__ == "VectorEnv" and "gymnasium" in sys.modules
from canter import *
assert {"tensorboard", "torch"} & set(sys.modules) == set()
assert canter.TensorBoard.__name__ == "TensorBoard"
try:
    canter.nothing
except AttributeError as error:
    print(error)
"""
    result: subprocess.CompletedProcess[str] = run_python("-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "module 'canter' has no attribute 'nothing'\n"


ORDERS = [
    *itertools.permutations(("canter", "mujoco")),
    *itertools.permutations(("canter", "torch")),
    ("gymnasium", "canter"),
    ("torch", "mujoco", "canter"),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: ",".join(order))
def test_orders(run_python: object, order: tuple[str, ...]) -> None:
    if "torch" in order:
        pytest.importorskip("torch", exc_type=ImportError)
    imports = "".join(f"import {name}\n" for name in order)
    result: subprocess.CompletedProcess[str] = run_python("-c", imports + SMOKE)
    assert result.returncode == 0, result.stderr
    assert result.stdout + result.stderr == ""
