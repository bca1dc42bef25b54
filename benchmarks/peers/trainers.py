"""PPO trainers of others as contenders: `python trainers.py KIND NUM_ENVS NUM_THREADS`.

All train HalfCheetah-v5 with 2x64 tanh networks: 2048 samples per iteration, 10 epochs of 32
minibatches of 64. KIND: `sb3` (Stable-Baselines3 on EnvPool, with VecNormalize) or `rltools` (with
MKL and the environment of rltools_environment/ in C++; it has no normalisation of observations, no
gradient clip and no value clip, so it does less).
"""

import pathlib
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import turns

TASK = "HalfCheetah-v5"
NUM_SAMPLES = 2048


def package(name: str) -> pathlib.Path:
    """Folder of an installed package, found without importing it."""
    return pathlib.Path(find_spec(name).submodule_search_locations[0])


def stable_baselines(num_envs: int, num_threads: int):
    import envpool
    import stable_baselines3
    import torch
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize

    torch.set_num_threads(num_threads)

    class EnvPoolVecEnv(VecEnv):
        """EnvPool behind Stable-Baselines3's interface."""

        def __init__(self) -> None:
            self.envs = envpool.make(
                TASK, env_type="gymnasium", num_envs=num_envs, num_threads=num_threads, seed=0
            )
            super().__init__(num_envs, self.envs.observation_space, self.envs.action_space)

        def reset(self):
            return self.envs.reset()[0].astype(np.float32)

        def step_async(self, actions) -> None:
            self.actions = actions.astype(np.float64)

        def step_wait(self):
            observations, rewards, terminated, truncated, _ = self.envs.step(self.actions)
            observations = observations.astype(np.float32)
            ended = terminated | truncated
            infos = [{} for _ in range(num_envs)]
            for i in np.flatnonzero(ended):
                infos[i]["terminal_observation"] = observations[i]
                infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
            return observations, rewards.astype(np.float32), ended, infos

        def close(self) -> None:
            pass

        def get_attr(self, name, indices=None):
            return [None] * num_envs

        def set_attr(self, name, value, indices=None) -> None:
            pass

        def env_method(self, name, *arguments, indices=None, **named):
            return [None] * num_envs

        def env_is_wrapped(self, wrapper, indices=None):
            return [False] * num_envs

    model = stable_baselines3.PPO(
        "MlpPolicy",
        VecNormalize(VecMonitor(EnvPoolVecEnv())),
        n_steps=NUM_SAMPLES // num_envs,
        batch_size=64,
        n_epochs=10,
        learning_rate=3e-4,
        ent_coef=0.0,
        device="cpu",
        seed=0,
    )
    total_steps = 10**9
    _, callback = model._setup_learn(total_steps, None, True, "benchmark", False)

    def work() -> int:
        # the body of PPO.learn(), without its logger
        model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
        model._update_current_progress_remaining(model.num_timesteps, total_steps)
        model.train()
        return NUM_SAMPLES

    return work, stable_baselines3.__version__


def rltools_ppo(num_envs: int, num_threads: int):
    build = pathlib.Path(__file__).resolve().parents[2] / "build" / "peers" / "rltools"
    build.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(build)  # where RLtools keeps what it compiles
    import rltools

    mujoco = package("mujoco")
    library = next(mujoco.glob("libmujoco.so.*"))
    model = package("gymnasium") / "envs" / "mujoco" / "assets" / "half_cheetah.xml"
    here = pathlib.Path(__file__).resolve().parent
    # RLtools pastes the path into its compiler's command line, so it carries the other flags too
    flags = (
        f"{here / 'rltools_environment'} -I{mujoco / 'include'} {library} "
        f"-Wl,-rpath,{mujoco} '-DHALF_CHEETAH_MODEL=\"{model}\"'"
    )
    trainer = rltools.PPO(
        {"path": flags, "action_dim": 6, "observation_dim": 17},
        enable_evaluation=False,
        interface_name=f"canter_benchmark_{num_envs}",
        ACTOR_ACTIVATION_FUNCTION="TANH",
        CRITIC_ACTIVATION_FUNCTION="TANH",
        N_ENVIRONMENTS=num_envs,
        ON_POLICY_RUNNER_STEPS_PER_ENV=NUM_SAMPLES // num_envs,
        BATCH_SIZE=64,
        N_EPOCHS=10,
        TOTAL_STEP_LIMIT=10**9,
        OPTIMIZER_ALPHA=3e-4,
        ACTION_ENTROPY_COEFFICIENT=0.0,
    )
    state = trainer.State(0)

    def work() -> int:
        state.step()
        return NUM_SAMPLES

    return work, version("rltools")


if __name__ == "__main__":
    make = {"sb3": stable_baselines, "rltools": rltools_ppo}[sys.argv[1]]
    turns.serve(lambda: make(int(sys.argv[2]), int(sys.argv[3])))
