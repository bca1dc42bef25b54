"""Pools of others as contenders: `python pools.py KIND TASK NUM_ENVS NUM_THREADS`.

KIND: `gymnasium` (SyncVectorEnv), `envpool`, or `batch` (MuJoCo's own batch API with a small task
in NumPy on top). Gymnasium and EnvPool reset in the step after the last one: those slots do no
physics and are not counted as steps. With `batch`, Ant's contact forces stay zero:
mj_rnePostConstraint cannot be reached through it from Python, so it does less than the task asks.
"""

import pathlib
import sys
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import turns

# name: model, frame skip, action bound, reset noise, positions left out of the observation
TASKS = {
    "HalfCheetah-v5": ("half_cheetah.xml", 5, 1.0, 0.1, 1),
    "Ant-v5": ("ant.xml", 5, 1.0, 0.1, 2),
    "InvertedPendulum-v5": ("inverted_pendulum.xml", 2, 3.0, 0.01, 0),
}


def next_step_pool(envs, num_envs: int, action_dtype) -> Callable[[], int]:
    """Random actions for a vector environment that resets in the step after the last one."""
    bound = TASKS[sys.argv[2]][2]
    shape = (16, num_envs, *envs.action_space.shape[-1:])
    actions = np.random.default_rng(0).uniform(-bound, bound, shape).astype(action_dtype)
    ended = np.zeros(num_envs, bool)
    count = 0

    def work() -> int:
        nonlocal count
        _, _, terminated, truncated, _ = envs.step(actions[count % 16])
        count += 1
        steps = num_envs - int(ended.sum())
        np.logical_or(terminated, truncated, out=ended)
        return steps

    return work


def gymnasium_pool(task: str, num_envs: int, num_threads: int):
    import gymnasium

    envs = gymnasium.make_vec(task, num_envs=num_envs, vectorization_mode="sync")
    envs.reset(seed=0)
    return next_step_pool(envs, num_envs, np.float32), gymnasium.__version__


def envpool_pool(task: str, num_envs: int, num_threads: int):
    import envpool

    envs = envpool.make(
        task, env_type="gymnasium", num_envs=num_envs, num_threads=num_threads, seed=0
    )
    envs.reset()
    return next_step_pool(envs, num_envs, np.float64), envpool.__version__


def batch_pool(task: str, num_envs: int, num_threads: int):
    import mujoco
    from mujoco import batch

    file, frame_skip, bound, noise, skipped = TASKS[task]
    package = find_spec("gymnasium").submodule_search_locations[0]
    model = mujoco.MjModel.from_xml_path(
        str(pathlib.Path(package, "envs", "mujoco", "assets", file))
    )
    simulations = batch.Batch(model, num_envs, num_threads)
    qpos, qvel, ctrl = (simulations.bind(name) for name in ("qpos", "qvel", "ctrl"))
    rng = np.random.default_rng(0)
    initial_row = simulations.state[0].copy()
    initial_qpos = model.qpos0.copy()
    actions = rng.uniform(-bound, bound, (16, num_envs, model.nu)).astype(np.float32)
    age = np.zeros(num_envs, int)
    seconds = frame_skip * model.opt.timestep
    count = 0

    def reset(rows: np.ndarray) -> None:
        size = len(rows)
        simulations.state[rows] = initial_row
        qpos[rows] = initial_qpos + rng.uniform(-noise, noise, (size, model.nq))
        if noise == 0.1:
            qvel[rows] = noise * rng.standard_normal((size, model.nv))
        else:
            qvel[rows] = rng.uniform(-noise, noise, (size, model.nv))
        age[rows] = 0

    def observe() -> np.ndarray:
        return np.concatenate((qpos[:, skipped:], qvel), axis=1, dtype=np.float32)

    def outcome(action: np.ndarray, x_before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if task == "InvertedPendulum-v5":
            healthy = np.abs(qpos[:, 1]) <= 0.2
            return healthy.astype(np.float32), ~healthy
        forward = (qpos[:, 0] - x_before) / seconds
        if task == "HalfCheetah-v5":
            reward = forward - 0.1 * np.square(action).sum(1)
            return reward.astype(np.float32), np.zeros(num_envs, bool)
        healthy = (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0) & np.isfinite(qpos).all(1)
        reward = forward + healthy - 0.5 * np.square(action).sum(1)
        return reward.astype(np.float32), ~healthy

    def work() -> int:
        nonlocal count
        action = actions[count % 16]
        count += 1
        x_before = qpos[:, 0].copy()
        ctrl[:] = action
        simulations.step(nstep=frame_skip)
        age[:] += 1
        _, terminated = outcome(action, x_before)
        ended = np.flatnonzero(terminated | (age >= 1000))
        observations = observe()
        if len(ended):
            final_observations = observations[ended].copy()  # noqa: F841 (users need it)
            reset(ended)
            observations[ended] = observe()[ended]
        return num_envs

    reset(np.arange(num_envs))
    return work, mujoco.__version__


if __name__ == "__main__":
    make = {"gymnasium": gymnasium_pool, "envpool": envpool_pool, "batch": batch_pool}[sys.argv[1]]
    turns.serve(lambda: make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
