"""The built-in tasks against the installed Gymnasium, which is the oracle: same model file, same
first state, same actions. Positions and velocities agree bit for bit in double precision,
observations and rewards are float32 of Gymnasium's bit for bit, flags are equal."""

import gymnasium
import numpy as np
import pytest

import canter

MUJOCO_TASKS = ["InvertedPendulum-v5", "HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"]
NUM_ENVS = 3  # of one shard: they take turns on one mjData
NUM_STEPS = 1000
EPISODE_STEPS = 230  # a time limit that ends several episodes within NUM_STEPS


def assert_same_bits(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    """Compares with float32 of `theirs`; -0 and 0 differ, as they do for memcmp."""
    expected = np.asarray(theirs).astype(np.float32)
    same = np.ascontiguousarray(ours).view(np.uint32) == expected.view(np.uint32)
    assert same.all(), f"{what}: {ours[~same]} instead of {expected[~same]}"


def _make(name: str) -> gymnasium.Env:
    return gymnasium.make(name, max_episode_steps=EPISODE_STEPS, disable_env_checker=True)


class Pair:
    """Gymnasium environments and a pool that follows them."""

    def __init__(self, name: str):
        self.envs = [_make(name) for _ in range(NUM_ENVS)]
        self.pool = canter.make_pool(
            name,
            num_envs=NUM_ENVS,
            seed=5,
            num_threads=1,
            num_shards=1,
            max_episode_steps=EPISODE_STEPS,
        )
        self.pool.reset()
        self.num_episodes = 0

    def start(self, i: int) -> None:
        """Begins an episode of environment i in both, from Gymnasium's state."""
        observation, _ = self.envs[i].reset(seed=1000 * i + self.num_episodes)
        self.num_episodes += 1
        data = self.envs[i].unwrapped.data
        ours = self.pool.reset_to(i, data.qpos, data.qvel)
        assert_same_bits(ours, observation, f"first observation of environment {i}")


def compare_row(pool, step, i: int, env: gymnasium.Env, action: np.ndarray) -> bool:
    """Steps Gymnasium's environment and compares with row i; True when the episode ended."""
    observation, reward, terminated, truncated, info = env.step(action)
    ended = terminated or truncated
    assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
    assert not step.diverged[i]
    last = step.final_observations if ended else step.observations
    assert_same_bits(last[i], observation, f"observation of environment {i}")
    assert abs(float(step.rewards[i]) - reward) <= 1e-6 * max(1, abs(reward))
    assert_same_bits(step.rewards[i], reward, "reward")
    for name, ours in zip(pool.spec.metrics, step.metrics[i], strict=True):
        assert_same_bits(ours, info[name], name)
    if not ended:
        data, state = env.unwrapped.data, pool.state(i)
        assert np.array_equal(state.qpos, data.qpos)
        assert np.array_equal(state.qvel, data.qvel)
    return ended


@pytest.mark.parametrize("name", MUJOCO_TASKS)
def test_mujoco_task_equals_gymnasium(name: str) -> None:
    pair = Pair(name)
    rng = np.random.default_rng(3)
    space = pair.envs[0].action_space
    for i in range(NUM_ENVS):
        pair.start(i)
    for _ in range(NUM_STEPS):
        # some actions are out of bounds: both leave clamping to MuJoCo
        shape = (NUM_ENVS, *space.shape)
        actions = (1.1 * rng.uniform(space.low, space.high, shape)).astype(np.float32)
        step = pair.pool.step(actions)
        for i in range(NUM_ENVS):
            if compare_row(pair.pool, step, i, pair.envs[i], actions[i]):
                pair.start(i)
    assert pair.num_episodes >= 4 * NUM_ENVS


# task, numbers of (qpos, qvel) that put the robot clear of other limits, index and value that one
# step later are at a bound of the healthy range
BOUNDS = [
    ("InvertedPendulum-v5", {}, 1, 0.2),
    ("InvertedPendulum-v5", {}, 1, -0.2),
    ("Hopper-v5", {}, 1, 0.7),
    ("Hopper-v5", {1: 2.0}, 2, 0.2),
    ("Hopper-v5", {1: 2.0}, 2, -0.2),
    ("Hopper-v5", {1: 2.0}, 6, 100.0),
    ("Hopper-v5", {1: 2.0}, 6, -100.0),
    ("Walker2d-v5", {}, 1, 0.8),
    ("Walker2d-v5", {}, 1, 2.0),
    ("Walker2d-v5", {1: 1.6}, 2, 1.0),
    ("Walker2d-v5", {1: 1.6}, 2, -1.0),
    # on its back and thrown down, since the floor lifts it above 0.2 at once otherwise
    ("Ant-v5", {3: 0.0, 4: 1.0, 17: -10.0}, 2, 0.16),
    ("Ant-v5", {}, 2, 1.0),
]


@pytest.mark.parametrize(("name", "base", "index", "bound"), BOUNDS)
def test_healthy_bounds_equal_gymnasium(name: str, base: dict, index: int, bound: float) -> None:
    """States around a bound, closer than random actions come to it: the flags turn at one place."""
    values = bound + 0.04 * np.linspace(-1, 1, 161)
    env = _make(name)
    pool = canter.make_pool(name, num_envs=len(values), num_threads=1)
    pool.reset()
    actions = np.zeros((len(values), pool.spec.action_size), np.float32)
    model, starts = env.unwrapped.model, []
    for i, value in enumerate(values):
        state = np.concatenate([model.qpos0, np.zeros(model.nv)])
        for position, number in base.items():
            state[position] = number
        state[index] = value
        starts.append((state[: model.nq], state[model.nq :]))
        pool.reset_to(i, *starts[i])
    step = pool.step(actions)
    flags = []
    for i, start in enumerate(starts):
        env.reset(seed=0)
        env.unwrapped.set_state(*start)
        flags.append(compare_row(pool, step, i, env, actions[i]))
    assert np.count_nonzero(np.diff(flags)) == 1


# fields of our state in the order of Gymnasium's; each is what `env/task/<field>` holds
PLAIN_TASKS = {"CartPole-v1": ["x", "v", "theta", "omega"], "Pendulum-v1": ["theta", "omega"]}


@pytest.mark.parametrize("name", PLAIN_TASKS)
def test_plain_environment_equals_gymnasium(name: str) -> None:
    """Gymnasium's environment continues from our states, which is the same comparison."""
    env = _make(name)
    env.reset(seed=0)
    pool = canter.make_pool(
        name, num_envs=NUM_ENVS, seed=5, num_threads=1, max_episode_steps=EPISODE_STEPS
    )
    pool.reset()
    rng = np.random.default_rng(3)
    num_episodes = 0

    def states() -> np.ndarray:
        saved = pool.save()
        return np.stack([saved[f"env/task/{field}"].ravel() for field in PLAIN_TASKS[name]], axis=1)

    for _ in range(NUM_STEPS):
        before = states()
        if name == "CartPole-v1":
            actions = rng.integers(2, size=NUM_ENVS)
        else:
            # some torques are out of bounds: both clip them
            actions = rng.uniform(-2.5, 2.5, size=(NUM_ENVS, 1)).astype(np.float32)
        step = pool.step(actions)
        after = states()
        for i in range(NUM_ENVS):
            env.unwrapped.state = before[i].copy()
            observation, reward, terminated, _, _ = env.unwrapped.step(actions[i])
            if name == "CartPole-v1":
                env.unwrapped.steps_beyond_terminated = None
            assert step.terminated[i] == terminated
            assert abs(float(step.rewards[i]) - reward) <= 1e-6
            assert_same_bits(step.rewards[i], reward, "reward")
            ended = terminated or bool(step.truncated[i])
            num_episodes += ended
            last = step.final_observations if ended else step.observations
            assert_same_bits(last[i], observation, f"observation of environment {i}")
            if not ended:
                assert np.array_equal(after[i], np.asarray(env.unwrapped.state, np.float64))
    assert num_episodes >= 4 * NUM_ENVS


@pytest.mark.parametrize("name", [*MUJOCO_TASKS, "CartPole-v1", "Pendulum-v1"])
def test_spaces_and_limits_equal_gymnasium(name: str) -> None:
    env = gymnasium.make(name)
    pool = canter.make_pool(name, num_envs=2)
    spec = pool.spec
    assert (spec.observation_size,) == env.observation_space.shape
    assert spec.max_episode_steps == env.spec.max_episode_steps
    if spec.observation_lows:
        assert np.array_equal(np.float32(spec.observation_lows), env.observation_space.low)
        assert np.array_equal(np.float32(spec.observation_highs), env.observation_space.high)
    else:
        assert np.isinf(env.observation_space.low).all()
    if name in MUJOCO_TASKS:
        assert spec.step_seconds == pytest.approx(env.unwrapped.dt, rel=1e-12)
        assert set(spec.metrics) <= set(_info_of_a_step(env))
        # every reward term is there
        terms = {key for key in _info_of_a_step(env) if key.startswith("reward_")}
        assert terms <= set(spec.metrics)


def _info_of_a_step(env) -> dict:
    env.reset(seed=0)
    return env.step(env.action_space.sample())[-1]
