"""EnvPool: arrays in and out, errors, state, lifetimes and threads."""

import copy
import gc
import math
import pickle
import subprocess
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import canter


@pytest.fixture
def pendulum() -> canter.EnvPool:
    return canter.make_pool("Pendulum-v1", num_envs=4, seed=7, num_threads=1)


@pytest.fixture
def cart_pole() -> canter.EnvPool:
    return canter.make_pool("CartPole-v1", num_envs=4, seed=7, num_threads=1)


def balance(observations: np.ndarray) -> np.ndarray:
    """Pushes the cart towards where the pole leans."""
    return (observations[:, 2] > 0).astype(np.int64)


class TestShapes:
    def test_box(self, pendulum: canter.EnvPool) -> None:
        observations = pendulum.reset()
        step = pendulum.step(np.zeros((4, 1), np.float32))
        for array, dtype, shape in [
            (observations, np.float32, (4, 3)),
            (step.observations, np.float32, (4, 3)),
            (step.rewards, np.float32, (4,)),
            (step.terminated, np.bool_, (4,)),
            (step.truncated, np.bool_, (4,)),
            (step.final_observations, np.float32, (4, 3)),
            (step.diverged, np.bool_, (4,)),
            (step.episode_returns, np.float32, (4,)),
            (step.episode_lengths, np.int32, (4,)),
            (step.metrics, np.float32, (4, len(pendulum.spec.metrics))),
        ]:
            assert array.dtype == dtype
            assert array.shape == shape

    @pytest.mark.parametrize(
        "make",
        [
            lambda: canter.Box(2, lows=[1.0]),
            lambda: canter.Box(2, highs=[1.0, 2.0, 3.0]),
            lambda: canter.Box(-1),
            lambda: canter.Box(1, low=1, high=1),
            lambda: canter.Box(1, low=math.nan),
            lambda: canter.Discrete(0),
        ],
    )
    def test_action_spaces_are_whole(self, make: Callable[[], object]) -> None:
        with pytest.raises(canter.InvalidArgument):
            make()

    def test_spec(self, pendulum: canter.EnvPool, cart_pole: canter.EnvPool) -> None:
        box = pendulum.spec.action
        assert isinstance(box, canter.Box)
        np.testing.assert_array_equal(box.low, [-2.0])
        np.testing.assert_array_equal(box.high, [2.0])
        assert cart_pole.spec.action == canter.Discrete(2)
        assert cart_pole.spec.max_episode_steps == 500
        assert pickle.loads(pickle.dumps(pendulum.spec)) == pendulum.spec
        assert pendulum.spec != cart_pole.spec

    def test_observations_are_the_latest(self, pendulum: canter.EnvPool) -> None:
        pendulum.reset()
        step = pendulum.step(np.ones((4, 1)))
        np.testing.assert_array_equal(pendulum.observations, step.observations)


class TestActions:
    @pytest.mark.parametrize(
        "make",
        [
            lambda a: a,
            lambda a: a.astype(np.float64),
            lambda a: a.astype(">f4"),
            lambda a: a.astype(np.float16).astype(np.float32).astype(np.longdouble),
            np.asfortranarray,
            lambda a: np.repeat(a, 2, axis=0)[::2],
            lambda a: a[::-1][::-1],
            lambda a: np.stack([a, a], axis=-1)[..., 1],
            lambda a: a.tolist(),
            lambda a: tuple(map(tuple, a)),
            lambda a: (
                np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 1)
            ),
        ],
    )
    def test_any_layout_gives_the_same_bits(self, pendulum: canter.EnvPool, make: object) -> None:
        # halves are exact in every dtype above
        actions = np.array([[-1.5], [0.5], [1.0], [2.0]], np.float32)
        pendulum.reset(seed=3)
        expected = pendulum.step(actions).observations
        pendulum.reset(seed=3)
        np.testing.assert_array_equal(pendulum.step(make(actions)).observations, expected)

    def test_integers_are_fine_floats(self, pendulum: canter.EnvPool) -> None:
        pendulum.reset(seed=3)
        expected = pendulum.step(np.ones((4, 1), np.float32)).observations
        pendulum.reset(seed=3)
        np.testing.assert_array_equal(pendulum.step(np.ones((4, 1), int)).observations, expected)

    @pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.int32])
    def test_discrete_integers(self, cart_pole: canter.EnvPool, dtype: type) -> None:
        cart_pole.reset(seed=3)
        expected = cart_pole.step([0, 1, 1, 0]).observations
        cart_pole.reset(seed=3)
        actions = np.array([0, 1, 1, 0], dtype)
        np.testing.assert_array_equal(cart_pole.step(actions).observations, expected)

    @pytest.mark.parametrize(
        ("actions", "message"),
        [
            (np.zeros((4, 2)), r"actions must be float32\[4, 1\], got float64\[4, 2\]"),
            (np.zeros(4), r"float32\[4, 1\], got float64\[4\]"),
            (np.zeros((4, 1), complex), r"got complex128\[4, 1\]"),
            (np.array([["1"]] * 4), r"got <U1\[4, 1\]"),
            (np.array([[None]] * 4), r"got object\[4, 1\]"),
            (None, "actions must be an array, got None"),
            ([[1.0], [1.0, 2.0]], "actions must be an array"),
            (object(), "actions must be"),
        ],
    )
    def test_wrong_actions(self, pendulum: canter.EnvPool, actions: object, message: str) -> None:
        pendulum.reset()
        with pytest.raises(canter.InvalidArgument, match=message):
            pendulum.step(actions)
        pendulum.step(np.zeros((4, 1)))

    @pytest.mark.parametrize(
        ("actions", "message"),
        [
            (np.zeros(4, np.float32), r"actions must be int64\[4\], got float32\[4\]"),
            (np.zeros((4, 1), int), r"got int64\[4, 1\]"),
            ([0, 1, 2, 0], "2"),
            ([0, 1, -1, 0], "-1"),
            ([0, 1, 2**40, 0], "actions?"),
        ],
    )
    def test_wrong_discrete_actions(
        self, cart_pole: canter.EnvPool, actions: object, message: str
    ) -> None:
        cart_pole.reset()
        with pytest.raises(ValueError, match=message):
            cart_pole.step(actions)

    def test_every_error_is_both(self, pendulum: canter.EnvPool) -> None:
        for kind in (ValueError, canter.Error):
            with pytest.raises(kind):
                pendulum.step(np.zeros(3))


class TestResets:
    def test_seed(self, pendulum: canter.EnvPool) -> None:
        first = pendulum.reset(seed=11)
        pendulum.step(np.ones((4, 1)))
        np.testing.assert_array_equal(pendulum.reset(seed=11), first)
        np.testing.assert_array_equal(
            canter.make_pool("Pendulum-v1", num_envs=4, seed=11).reset(), first
        )
        assert len(np.unique(first, axis=0)) == 4

    def test_list_of_seeds(self, pendulum: canter.EnvPool) -> None:
        a = pendulum.reset(seed=[5, 6, 7, 8])
        b = pendulum.reset(seed=[8, 6, 5, 7])
        np.testing.assert_array_equal(a[[3, 1, 0, 2]], b)

    @pytest.mark.parametrize("seed", [-1, 1.5, "7", [1, 2], 2**64, True])
    def test_wrong_seeds(self, pendulum: canter.EnvPool, seed: object) -> None:
        with pytest.raises(canter.InvalidArgument, match="seed"):
            pendulum.reset(seed=seed)

    def test_mask(self, pendulum: canter.EnvPool) -> None:
        before = pendulum.reset()
        after = pendulum.reset(mask=np.array([False, True, False, True]))
        same = (before == after).all(axis=1)
        assert same.tolist() == [True, False, True, False]

    @pytest.mark.parametrize("mask", [np.ones(3, bool), np.ones(4, int), 1])
    def test_wrong_masks(self, pendulum: canter.EnvPool, mask: object) -> None:
        pendulum.reset()
        with pytest.raises(canter.InvalidArgument, match=r"mask must be bool\[4\], got"):
            pendulum.reset(mask=mask)


class TestCopies:
    def test_results_never_change_under_the_caller(self, pendulum: canter.EnvPool) -> None:
        first = pendulum.reset()
        kept = [first, *vars_of(pendulum.step(np.ones((4, 1))))]
        copies = [array.copy() for array in kept]
        for _ in range(3):
            pendulum.step(np.ones((4, 1)))
        for array, expected in zip(kept, copies, strict=True):
            np.testing.assert_array_equal(array, expected)

    def test_buffers_are_written_in_place(self, pendulum: canter.EnvPool) -> None:
        pendulum.reset(out=pendulum.buffers)
        observations = pendulum.buffers.observations
        address = observations.ctypes.data
        result = pendulum.step(np.ones((4, 1)), out=pendulum.buffers)
        assert result is pendulum.buffers
        assert result.observations is observations
        assert observations.ctypes.data == address
        np.testing.assert_array_equal(observations, pendulum.observations)

    def test_same_numbers_either_way(self, cart_pole: canter.EnvPool) -> None:
        other = canter.make_pool("CartPole-v1", num_envs=4, seed=7)
        a, b = cart_pole.reset(), other.reset(out=other.buffers)
        for _ in range(300):
            np.testing.assert_array_equal(a, b)
            x = cart_pole.step(balance(a))
            y = other.step(balance(b), out=other.buffers)
            ended = x.terminated | x.truncated
            np.testing.assert_array_equal(x.terminated, y.terminated)
            np.testing.assert_array_equal(x.final_observations[ended], y.final_observations[ended])
            np.testing.assert_array_equal(x.episode_lengths[ended], y.episode_lengths[ended])
            assert not x.final_observations[~ended].any()
            a, b = x.observations, y.observations

    def test_foreign_out(self, pendulum: canter.EnvPool, cart_pole: canter.EnvPool) -> None:
        pendulum.reset()
        with pytest.raises(canter.InvalidArgument, match=r"out\.observations"):
            pendulum.step(np.zeros((4, 1)), out=cart_pole.buffers)
        with pytest.raises(canter.InvalidArgument, match="StepResult"):
            pendulum.step(np.zeros((4, 1)), out=np.zeros((4, 3)))


def vars_of(step: canter.StepResult) -> list[np.ndarray]:
    names = [name for name in dir(step) if not name.startswith("_")]
    return [getattr(step, name) for name in names]


class TestState:
    def test_state_and_reset_to(self) -> None:
        pool = canter.make_pool("HalfCheetah-v5", num_envs=3, seed=1, num_threads=1)
        pool.reset()
        for _ in range(5):
            pool.step(np.full((3, 6), 0.5))
        state = pool.state(1)
        assert state.qpos.dtype == np.float64
        assert (state.qpos.shape, state.qvel.shape) == ((9,), (9,))
        assert math.isclose(state.time, 5 * 0.05, rel_tol=1e-9)
        observation = pool.reset_to(2, state.qpos, state.qvel)
        np.testing.assert_array_equal(observation, pool.observations[2])
        np.testing.assert_array_equal(pool.state(2).qpos, state.qpos)
        with pytest.raises(canter.InvalidArgument, match="9"):
            pool.reset_to(2, state.qpos[:3], state.qvel)
        with pytest.raises(canter.InvalidArgument):
            pool.state(3)

    def test_save_and_load(self, cart_pole: canter.EnvPool) -> None:
        observations = cart_pole.reset()
        for _ in range(20):
            observations = cart_pole.step(balance(observations)).observations
        saved = cart_pole.save()
        assert all(isinstance(array, np.ndarray) for array in saved.values())
        start = observations

        def play(pool: canter.EnvPool) -> np.ndarray:
            rows, observations = [], start
            for _ in range(100):
                observations = pool.step(balance(observations)).observations
                rows.append(observations)
            return np.array(rows)

        expected = play(cart_pole)
        # through pickle, into another pool with other threads
        other = canter.make_pool("CartPole-v1", num_envs=4, seed=99, num_threads=2)
        other.load(pickle.loads(pickle.dumps(saved)))
        assert play(other).tobytes() == expected.tobytes()

    def test_load_what_does_not_fit(self, cart_pole: canter.EnvPool) -> None:
        cart_pole.reset()
        saved = cart_pole.save()
        name = next(iter(saved))
        before = cart_pole.observations
        for broken in (
            {**saved, name: saved[name][:-1]},
            {key: array for key, array in saved.items() if key != name},
            {**saved, name: saved[name].astype(np.float32)},
        ):
            with pytest.raises(canter.CheckpointError, match=name):
                cart_pole.load(broken)
        np.testing.assert_array_equal(cart_pole.observations, before)

    def test_statistics(self, cart_pole: canter.EnvPool) -> None:
        cart_pole.reset()
        ended = 0
        for _ in range(200):
            step = cart_pole.step([0, 0, 1, 1])
            ended += int((step.terminated | step.truncated).sum())
        statistics = cart_pole.statistics()
        assert statistics.env_steps == 800
        assert statistics.episodes == ended > 0
        assert statistics.warnings == {}


class TestLifetime:
    """Case C46: memory that outlives its pool."""

    def test_temporary_pool(self) -> None:
        observations = canter.make_pool("CartPole-v1", num_envs=512).reset()
        gc.collect()
        assert np.isfinite(observations).all()

    def test_everything_survives_close(self) -> None:
        pool = canter.make_pool("CartPole-v1", num_envs=64, seed=3)
        arrays = [pool.reset(), pool.observations, *pool.save().values()]
        arrays += vars_of(pool.step(np.zeros(64, int), out=pool.buffers))
        copies = [array.copy() for array in arrays]
        pool.close()
        del pool
        gc.collect()
        filler = [np.full(4096, 7.0) for _ in range(100)]
        for array, expected in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, expected)
        assert len(filler) == 100

    def test_closed(self) -> None:
        with canter.make_pool("CartPole-v1") as pool:
            pool.reset()
            assert not pool.closed
        assert pool.closed
        assert repr(pool) == "EnvPool(closed)"
        pool.close()
        for call in (
            pool.reset,
            lambda: pool.step([0]),
            lambda: pool.spec,
            lambda: pool.observations,
            lambda: pool.buffers,
            lambda: pool.state(0),
            pool.save,
            pool.statistics,
            lambda: pool.num_envs,
        ):
            with pytest.raises(canter.Error, match="closed"):
                call()

    def test_no_leak(self) -> None:
        pool = canter.make_pool("CartPole-v1")
        buffers = weakref.ref(pool.buffers.observations)
        pool.reset(out=pool.buffers)
        del pool
        gc.collect()
        assert buffers() is None

    def test_no_copies(self, pendulum: canter.EnvPool) -> None:
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"canter\.make_pool"):
                copier(pendulum)


class TestThreads:
    """Case C48: no deadlocks, and the GIL is free while a pool steps."""

    def test_two_pools_in_two_threads(self) -> None:
        def play(pool: canter.EnvPool, out: list[bytes]) -> None:
            observations = pool.reset()
            for _ in range(200):
                observations = pool.step(balance(observations)).observations
            out.append(observations.tobytes())

        results: list[list[bytes]] = [[], [], []]
        play(canter.make_pool("CartPole-v1", num_envs=32, seed=5, num_threads=1), results[2])
        threads = [
            threading.Thread(
                target=play,
                args=(canter.make_pool("CartPole-v1", num_envs=32, seed=5), results[i]),
            )
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert results[0] == results[1] == results[2]

    def test_one_pool_from_two_threads(self) -> None:
        pool = canter.make_pool("HalfCheetah-v5", num_envs=256, num_threads=1)
        pool.reset()
        actions = np.zeros((256, 6), np.float32)
        errors: list[str] = []

        def step() -> None:
            for _ in range(20):
                try:
                    pool.step(actions)
                except canter.Error as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=step) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        # every call either stepped or said why not ...
        assert pool.statistics().env_steps == 256 * (40 - len(errors))
        # ... and some did not: step releases the GIL, else no two calls could meet
        assert errors

    def test_close_and_delete_while_a_step_runs(self) -> None:
        actions = np.zeros((2048, 1), np.float32)
        messages: list[str] = []
        for i in range(60):
            pool = canter.make_pool("Pendulum-v1", num_envs=2048, num_threads=1 + i % 2)
            pool.reset()
            entered = threading.Event()

            def step(pool: canter.EnvPool = pool, entered: threading.Event = entered) -> None:
                entered.set()
                try:
                    for _ in range(3):
                        pool.step(actions)
                except canter.Error as error:
                    messages.append(str(error))

            thread = threading.Thread(target=step)
            thread.start()
            entered.wait()
            if i % 2:
                pool.close()
            del pool
            gc.collect()
            thread.join(30)
            assert not thread.is_alive()
        assert all("closed" in message for message in messages)

    def test_interpreter_exit_with_a_step_in_flight(self, run_python: object) -> None:
        code = """
import threading, numpy as np, canter
pool = canter.make_pool("HalfCheetah-v5", num_envs=256)
pool.reset()
entered = threading.Event()
def work():
    entered.set()
    while True:
        pool.step(np.zeros((256, 6), np.float32))
threading.Thread(target=work, daemon=True).start()
entered.wait()
print("bye")
"""
        for _ in range(3):
            result: subprocess.CompletedProcess[str] = run_python("-c", code)
            assert result.returncode == 0, result.stderr
            assert result.stdout == "bye\n"

    def test_cycles_are_collected(self) -> None:
        class Holder:
            pass

        holder = Holder()
        holder.pool = canter.make_pool("CartPole-v1")
        holder.self = holder
        alive = weakref.ref(holder)
        del holder
        gc.collect()
        assert alive() is None


class TestNames:
    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("HalfCheeta-v5", {}, 'did you mean "HalfCheetah-v5"'),
            ("CartPole-v1", {"num_env": 3}, 'did you mean "num_envs"'),
            ("CartPole-v1", {"num_envs": 0}, "num_envs must be >= 1, got 0"),
            ("CartPole-v1", {"num_envs": 2.5}, "num_envs must be an integer, got 2.5"),
            ("CartPole-v1", {"num_envs": "many"}, "num_envs must be an integer"),
            ("CartPole-v1", {"num_envs": None}, "num_envs"),
            ("CartPole-v1", {"seeds": [1, 2, 3]}, "seeds"),
            ("HalfCheetah-v5", {"model_path": "/nowhere/robot.xml"}, "/nowhere/robot.xml"),
        ],
    )
    def test_wrong_names_and_values(self, name: str, options: dict, message: str) -> None:
        with pytest.raises(canter.Error, match=message):
            canter.make_pool(name, **options)

    def test_options_of_another_pool(self, pendulum: canter.EnvPool) -> None:
        again = canter.make_pool(pendulum.name, pendulum.options)
        np.testing.assert_array_equal(again.reset(), pendulum.reset())

    def test_asset_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = canter.make_pool("InvertedPendulum-v5").options.model_path
        copy_of_model = tmp_path / "inverted_pendulum.xml"
        copy_of_model.write_bytes(Path(source).read_bytes())
        monkeypatch.setenv("CANTER_ASSET_PATH", f"/nowhere:{tmp_path}")
        pool = canter.make_pool("InvertedPendulum-v5")
        assert pool.options.model_path == str(copy_of_model)

    def test_a_numpy_integer_is_an_integer(self) -> None:
        assert canter.make_pool("CartPole-v1", num_envs=np.int32(3)).num_envs == 3
