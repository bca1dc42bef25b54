"""VectorEnv: Gymnasium's own vector contract in SAME_STEP."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import (
    ClipReward,
    RecordEpisodeStatistics,
    RescaleAction,
)

import canter


@pytest.fixture
def envs() -> canter.VectorEnv:
    return canter.VectorEnv("CartPole-v1", num_envs=3, seed=1, max_episode_steps=12)


class TestContract:
    def test_attributes(self, envs: canter.VectorEnv) -> None:
        assert isinstance(envs, gymnasium.vector.VectorEnv)
        assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        assert envs.num_envs == 3
        assert envs.single_action_space == gymnasium.spaces.Discrete(2)
        assert envs.action_space == batch_space(envs.single_action_space, 3)
        assert envs.observation_space == batch_space(envs.single_observation_space, 3)
        assert envs.single_observation_space.shape == (4,)
        assert envs.single_observation_space.dtype == np.float32
        assert envs.render_mode is None
        assert envs.unwrapped is envs

    @pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "HalfCheetah-v5", "Ant-v5"])
    def test_everything_is_in_its_space(self, name: str) -> None:
        envs = canter.VectorEnv(name, num_envs=2)
        theirs = gymnasium.make(name)
        assert envs.single_action_space == theirs.action_space
        assert envs.single_observation_space.shape == theirs.observation_space.shape
        envs.action_space.seed(3)
        observations, infos = envs.reset(seed=3)
        assert observations in envs.observation_space
        assert infos == {}
        for _ in range(5):
            actions = envs.action_space.sample()
            observations, rewards, terminations, truncations, infos = envs.step(actions)
            assert observations in envs.observation_space
            assert (rewards.dtype, rewards.shape) == (np.float64, (2,))
            assert (terminations.dtype, terminations.shape) == (np.bool_, (2,))
            assert (truncations.dtype, truncations.shape) == (np.bool_, (2,))
            assert isinstance(infos, dict)
        envs.close()

    def test_same_step_like_gymnasium(self) -> None:
        """Cause, final observation and info structure against SyncVectorEnv in SAME_STEP."""
        ours = canter.VectorEnv("CartPole-v1", num_envs=2, seed=5, episode_statistics=True)
        theirs = SyncVectorEnv(
            [
                lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
                for _ in range(2)
            ],
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        mine, _ = ours.reset()
        theirs.reset()
        for i, env in enumerate(theirs.envs):
            env.unwrapped.state = mine[i].astype(np.float64)
        for t in range(60):
            actions = np.array([t % 2, 1])
            mine, _, terminations, truncations, infos = ours.step(actions)
            their, _, their_terminations, their_truncations, their_infos = theirs.step(actions)
            np.testing.assert_array_equal(terminations, their_terminations)
            np.testing.assert_array_equal(truncations, their_truncations)
            if terminations.any():
                break
            np.testing.assert_allclose(mine, their, atol=1e-4)
        assert terminations.tolist() == [False, True]
        assert set(their_infos) <= set(infos)
        np.testing.assert_array_equal(infos["_final_obs"], their_infos["_final_obs"])
        np.testing.assert_array_equal(infos["_final_info"], their_infos["_final_info"])
        assert infos["final_obs"].dtype == object
        assert infos["final_obs"][0] is None
        np.testing.assert_allclose(infos["final_obs"][1], their_infos["final_obs"][1], atol=1e-4)
        mine_episode, their_episode = (
            infos["final_info"]["episode"],
            their_infos["final_info"]["episode"],
        )
        for key in ("r", "l"):
            np.testing.assert_allclose(mine_episode[key], their_episode[key])
            np.testing.assert_array_equal(mine_episode[f"_{key}"], their_episode[f"_{key}"])
        np.testing.assert_array_equal(
            infos["final_info"]["_episode"], their_infos["final_info"]["_episode"]
        )

    def test_truncation(self) -> None:
        """Case C01: a time limit of 4, seen in the very step."""
        envs = canter.VectorEnv("Pendulum-v1", num_envs=3, max_episode_steps=4)
        observations, _ = envs.reset(seed=1)
        pool = canter.make_pool("Pendulum-v1", num_envs=3, seed=1)
        pool.reset()
        actions = np.full((3, 1), 0.5, np.float32)
        for t in range(1, 7):
            observations, _, terminations, truncations, infos = envs.step(actions)
            expected = pool.step(actions).observations
            assert truncations.tolist() == [t == 4] * 3
            assert not terminations.any()
            if t < 4:
                np.testing.assert_array_equal(observations, expected)
                assert infos == {}
            elif t == 4:
                np.testing.assert_array_equal(np.stack(infos["final_obs"]), expected)
                assert (observations != expected).any(axis=1).all()


class TestReset:
    def test_seeds(self, envs: canter.VectorEnv) -> None:
        a, _ = envs.reset(seed=4)
        b, _ = envs.reset(seed=4)
        np.testing.assert_array_equal(a, b)
        assert len(np.unique(a, axis=0)) == 3
        c, _ = envs.reset(seed=[1, 2, 3])
        d, _ = envs.reset(seed=[3, 2, 1])
        np.testing.assert_array_equal(c, d[::-1])
        with pytest.raises(ValueError, match="list of 3 ints, got 2"):
            envs.reset(seed=[1, 2])

    def test_mask(self, envs: canter.VectorEnv) -> None:
        before, _ = envs.reset(seed=4)
        options = {"reset_mask": np.array([True, False, False])}
        after, _ = envs.reset(options=options)
        assert (before == after).all(axis=1).tolist() == [False, True, True]
        # the caller's dictionary is its own
        assert list(options) == ["reset_mask"]
        for mask in (np.zeros(3, bool), np.ones(2, bool), np.ones(3, int)):
            with pytest.raises(ValueError, match="mask"):
                envs.reset(options={"reset_mask": mask})

    def test_wrong_actions(self, envs: canter.VectorEnv) -> None:
        envs.reset()
        with pytest.raises(ValueError, match=r"int64\[3\]"):
            envs.step(np.zeros((3, 2)))


class TestCopies:
    def test_default(self, envs: canter.VectorEnv) -> None:
        first, _ = envs.reset()
        kept = [first, *envs.step([0, 0, 0])[:4]]
        copies = [array.copy() for array in kept]
        for _ in range(15):
            *_, infos = envs.step([1, 1, 1])
        final = infos.get("final_obs")
        for array, copy in zip(kept, copies, strict=True):
            np.testing.assert_array_equal(array, copy)
        assert final is None or final.dtype == object

    def test_zero_copy_by_name(self) -> None:
        envs = canter.VectorEnv("CartPole-v1", num_envs=3, copy=False)
        first, _ = envs.reset()
        second = envs.step([0, 0, 0])[0]
        assert second is first

    def test_close(self, envs: canter.VectorEnv) -> None:
        envs.close()
        assert envs.closed
        assert envs.pool.closed
        pool = canter.make_pool("CartPole-v1", num_envs=2)
        borrowed = canter.VectorEnv(pool)
        borrowed.close()
        assert not pool.closed
        with pytest.raises(canter.InvalidArgument):
            canter.VectorEnv(pool, num_envs=5)


class TestWrappers:
    def test_episode_statistics(self) -> None:
        envs = RecordEpisodeStatistics(canter.VectorEnv("CartPole-v1", num_envs=2, seed=3))
        envs.reset(seed=3)
        lengths = np.zeros(2)
        for t in range(100):
            _, _, terminations, truncations, infos = envs.step(np.array([0, t % 2]))
            lengths += 1
            ended = terminations | truncations
            if ended.any():
                np.testing.assert_array_equal(infos["episode"]["l"][ended], lengths[ended])
                np.testing.assert_array_equal(infos["episode"]["r"][ended], lengths[ended])
                lengths[ended] = 0
        assert envs.episode_count > 5

    def test_others_run(self) -> None:
        envs = canter.VectorEnv("HalfCheetah-v5", num_envs=2)
        wrapped = ClipReward(RescaleAction(envs, np.float32(-2), np.float32(2)), -0.5, 0.5)
        observations, _ = wrapped.reset(seed=1)
        for _ in range(3):
            observations, rewards, *_ = wrapped.step(wrapped.action_space.sample())
        assert np.isfinite(observations).all()
        assert (np.abs(rewards) <= 0.5).all()
        wrapped.close()
