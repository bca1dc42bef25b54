"""Policies: NumPy in and out, files, pickles; normalisers in evaluation (case C35)."""

import copy
import pickle
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import canter


@pytest.fixture(scope="module")
def trained() -> canter.Policy:
    """A policy whose normaliser has seen data."""
    pool = canter.make_pool("Pendulum-v1", num_envs=8, seed=3, num_threads=1)
    policy = canter.MlpPolicy(pool.spec, hidden=[16, 8], seed=3)
    ppo = canter.PpoOptions(horizon=32, num_epochs=2, num_minibatches=4)
    trainer = canter.Trainer(pool, policy, ppo=ppo)
    for _ in range(3):
        trainer.iterate()
    trainer.close()
    return policy


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(100, 3)).astype(np.float32)


def by_hand(policy: canter.Policy, rows: np.ndarray) -> np.ndarray:
    """The deterministic action, written out in NumPy float64."""
    moments = policy.observation_moments
    x = (rows - moments["mean"]) / np.sqrt(moments["variance"] + 1e-8)
    x = np.clip(x, -10, 10)
    parameters = {name: array.astype(np.float64) for name, array in policy.parameters.items()}
    layers = sorted({name.split(".")[1] for name in parameters if name.startswith("actor.")})
    for i in layers:
        x = x @ parameters[f"actor.{i}.weight"].T + parameters[f"actor.{i}.bias"]
        if i != layers[-1]:
            x = np.tanh(x)
    return np.clip(x, policy.spec.action.low, policy.spec.action.high)


class TestAct:
    def test_against_numpy(self, trained: canter.Policy, rows: np.ndarray) -> None:
        assert trained.observation_moments["count"] == 3 * 8 * 32
        actions = trained.act(rows, deterministic=True)
        assert actions.dtype == np.float32
        np.testing.assert_allclose(actions, by_hand(trained, rows), rtol=1e-4, atol=1e-5)

    def test_single_rows_have_the_bits_of_the_batch(
        self, trained: canter.Policy, rows: np.ndarray
    ) -> None:
        batch, values = trained.act(rows, deterministic=True), trained.value(rows)
        for row, action, value in zip(rows, batch, values, strict=True):
            assert trained.act(row, deterministic=True).tobytes() == action.tobytes()
            assert trained.value(row) == value
        assert trained.act(rows[0]).shape == (1,)

    def test_discrete(self) -> None:
        pool = canter.make_pool("CartPole-v1", num_envs=3)
        policy = canter.MlpPolicy(pool.spec, seed=1)
        observations = pool.reset()
        actions = policy.act(observations)
        assert actions.dtype == np.int64
        assert actions.shape == (3,)
        assert type(policy.act(observations[0])) is int
        pool.step(actions)

    def test_samples_come_from_the_seed(self, trained: canter.Policy, rows: np.ndarray) -> None:
        pool = canter.make_pool("Pendulum-v1")
        a, b, c = (canter.MlpPolicy(pool.spec, seed=s) for s in (1, 1, 2))
        first = a.act(rows)
        assert first.tobytes() == b.act(rows).tobytes()
        assert first.tobytes() != a.act(rows).tobytes()
        assert first.tobytes() != c.act(rows).tobytes()
        # a deterministic call in between does not move the stream
        a.act(rows, deterministic=True)
        b.act(rows)
        assert a.act(rows).tobytes() == b.act(rows).tobytes()

    @pytest.mark.parametrize(
        ("observation", "message"),
        [
            (np.zeros(4), r"observation must be float32\[3\], got float64\[4\]"),
            (np.zeros((2, 4)), r"float32\[3\] or float32\[n, 3\], got float64\[2, 4\]"),
            (np.zeros((2, 3, 1)), r"got float64\[2, 3, 1\]"),
            (np.zeros((2, 3), complex), "complex128"),
            ("abc", "observation must be"),
            (None, "got None"),
        ],
    )
    def test_wrong_observations(
        self, trained: canter.Policy, observation: object, message: str
    ) -> None:
        for call in (trained.act, trained.value):
            with pytest.raises(canter.InvalidArgument, match=message):
                call(observation)

    def test_empty_batch(self, trained: canter.Policy) -> None:
        assert trained.act(np.zeros((0, 3))).shape == (0, 1)

    def test_from_two_threads(self, trained: canter.Policy, rows: np.ndarray) -> None:
        expected = trained.act(rows, deterministic=True).tobytes()
        wrong = []

        def work() -> None:
            for _ in range(300):
                if trained.act(rows, deterministic=True).tobytes() != expected:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong


class TestParameters:
    def test_copies(self, trained: canter.Policy) -> None:
        parameters = trained.parameters
        assert sum(array.size for array in parameters.values()) == trained.num_parameters
        kept = {name: array.copy() for name, array in parameters.items()}
        for array in parameters.values():
            array += 1
        for name, array in trained.parameters.items():
            np.testing.assert_array_equal(array, kept[name])

    def test_assignment(self, trained: canter.Policy, rows: np.ndarray) -> None:
        policy = copy.deepcopy(trained)
        name = "actor.0.weight"
        policy.parameters = {name: np.asfortranarray(policy.parameters[name]) * 2.0}
        np.testing.assert_array_equal(policy.parameters[name], trained.parameters[name] * 2)
        np.testing.assert_allclose(
            policy.act(rows, deterministic=True), by_hand(policy, rows), rtol=1e-4, atol=1e-5
        )

    def test_wrong_assignment_changes_nothing(self, trained: canter.Policy) -> None:
        policy = copy.deepcopy(trained)
        name = "actor.0.weight"
        shape = policy.parameters[name].shape
        with pytest.raises(canter.InvalidArgument, match=r"actor\.0\.bias must be float32"):
            policy.parameters = {name: np.zeros(shape), "actor.0.bias": np.zeros(99)}
        with pytest.raises(canter.InvalidArgument, match=r'did you mean "actor\.0\.weight"'):
            policy.parameters = {"actor.0.weigth": np.zeros(shape)}
        np.testing.assert_array_equal(policy.parameters[name], trained.parameters[name])


class TestFiles:
    def test_a_new_process_acts_the_same(
        self, trained: canter.Policy, rows: np.ndarray, tmp_path: Path, run_python: object
    ) -> None:
        trained.save(tmp_path / "policy.safetensors")
        np.save(tmp_path / "rows.npy", rows)
        code = (
            "import canter, numpy as np; p = canter.Policy.load('policy.safetensors');"
            "np.save('actions.npy', p.act(np.load('rows.npy'), deterministic=True))"
        )
        result: subprocess.CompletedProcess[str] = run_python("-c", code)
        assert result.returncode == 0, result.stderr
        expected = trained.act(rows, deterministic=True)
        assert np.load(tmp_path / "actions.npy").tobytes() == expected.tobytes()

    def test_load(self, trained: canter.Policy, rows: np.ndarray, tmp_path: Path) -> None:
        path = tmp_path / "policy.safetensors"
        trained.save(path)
        loaded = canter.Policy.load(str(path))
        assert isinstance(loaded, canter.MlpPolicy)
        for name in ("observation_size", "action", "max_episode_steps", "step_seconds"):
            assert getattr(loaded.spec, name) == getattr(trained.spec, name)
        assert loaded.options == trained.options
        assert loaded.value(rows).tobytes() == trained.value(rows).tobytes()

    def test_damage(self, trained: canter.Policy, tmp_path: Path) -> None:
        path = tmp_path / "policy.safetensors"
        with pytest.raises(canter.CheckpointError, match=r"policy\.safetensors"):
            canter.Policy.load(path)
        trained.save(path)
        data = bytearray(path.read_bytes())
        data[-3] ^= 4
        path.write_bytes(data)
        with pytest.raises(canter.CheckpointError, match=r"policy\.safetensors"):
            canter.Policy.load(path)

    @pytest.mark.parametrize(
        "copier", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
    )
    def test_copies_are_independent(
        self, trained: canter.Policy, rows: np.ndarray, copier: object
    ) -> None:
        other = copier(trained)
        assert other.act(rows).tobytes() == copier(trained).act(rows).tobytes()
        before = trained.parameters
        other.parameters = {name: array * 0 for name, array in other.parameters.items()}
        for name, array in trained.parameters.items():
            np.testing.assert_array_equal(array, before[name])


class TestEvaluation:
    def test_normaliser_is_frozen_and_rewards_are_raw(self, trained: canter.Policy) -> None:
        before = pickle.dumps(trained)
        moments = trained.observation_moments
        result = canter.evaluate(trained, "Pendulum-v1", episodes=10, num_envs=5, seed=4)
        after = trained.observation_moments
        assert pickle.dumps(trained) == before
        assert moments["count"] == after["count"]
        assert moments["mean"].tobytes() == after["mean"].tobytes()
        # by hand, through the pool alone: float32 sums of 200 raw rewards
        pool = canter.make_pool("Pendulum-v1", num_envs=5, seed=4)
        observations, returns = pool.reset(), np.zeros(5)
        for _ in range(200):
            step = pool.step(trained.act(observations, deterministic=True))
            observations = step.observations
            returns += step.rewards
        np.testing.assert_allclose(result.returns.reshape(5, 2)[:, 0], returns, rtol=1e-5)
        assert result.lengths.tolist() == [200] * 10
        np.testing.assert_allclose(result.return_mean, result.returns.mean(), rtol=1e-6)
        np.testing.assert_allclose(result.return_std, result.returns.std(ddof=1), rtol=1e-5)
        assert result.return_low < result.return_mean < result.return_high

    def test_same_seed_same_result(self, trained: canter.Policy) -> None:
        runs = [
            canter.evaluate(trained, "Pendulum-v1", episodes=4, deterministic=False, num_threads=t)
            for t in (1, 2)
        ]
        assert runs[0].returns.tobytes() == runs[1].returns.tobytes()

    def test_ctrl_c(self, trained: canter.Policy) -> None:
        main_thread = threading.main_thread().ident
        timer = threading.Timer(0.2, lambda: signal.pthread_kill(main_thread, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            canter.evaluate(trained, "Pendulum-v1", episodes=10**6, num_envs=64)

    def test_refusals(self, trained: canter.Policy) -> None:
        with pytest.raises(canter.InvalidArgument):
            canter.evaluate(trained, "CartPole-v1", episodes=2)
        with pytest.raises(canter.InvalidArgument, match="episodes"):
            canter.evaluate(trained, "Pendulum-v1", episodes=0)
        with pytest.raises(canter.InvalidArgument, match="num_threads"):
            canter.evaluate(trained, canter.make_pool("Pendulum-v1"), num_threads=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hiden": [3]}, 'did you mean "hidden"'),
        ({"hidden": [0]}, "hidden"),
        ({"hidden": [16384] * 2000}, "GiB of memory"),
        ({"seed": -1}, "seed"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    spec = canter.make_pool("CartPole-v1").spec
    with pytest.raises(canter.InvalidArgument, match=message):
        canter.MlpPolicy(spec, **options)
