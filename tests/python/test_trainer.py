"""Trainer: iterations, callbacks, interruption at boundaries (case C50), resume, threads."""

import copy
import gc
import pickle
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import canter

STEPS = 8 * 16  # of one iteration of the fixture's trainer
Maker = Callable[..., canter.Trainer]


class TestIterate:
    def test_report(self, make_trainer: Maker) -> None:
        trainer = make_trainer()
        report = trainer.iterate()
        assert (report.iteration, report.env_steps) == (1, STEPS)
        assert (trainer.iteration, trainer.env_steps) == (1, STEPS)
        assert set(report.as_dict()) == {
            name for name in dir(report) if not name.startswith("_")
        } - {"as_dict", "warning"}
        assert report.warning == ""
        assert "iteration 1" in str(report)
        again = pickle.loads(pickle.dumps(report))
        # text, since NaN is not equal to itself
        assert str(again.as_dict()) == str(report.as_dict())

    def test_learns(self) -> None:
        pool = canter.make_pool("CartPole-v1", num_envs=16, seed=1)
        policy = canter.MlpPolicy(pool.spec, seed=1)
        ppo = canter.PpoOptions(
            horizon=64, num_minibatches=4, learning_rate=1e-3, learning_rate_schedule="constant"
        )
        trainer = canter.Trainer(pool, policy, ppo=ppo, total_steps=40_000)
        reports = []
        assert trainer.train(reports.append)
        assert reports[-1].episode_return_mean > 4 * reports[0].episode_return_mean
        # the policy was trained in place, and the pool is free again
        assert trainer.policy is policy
        trainer.close()
        assert canter.evaluate(policy, pool, episodes=16).return_mean > 150

    def test_equal_runs_have_equal_digests(self, make_trainer: Maker) -> None:
        digests = set()
        for _ in range(2):
            trainer = make_trainer()
            for _ in range(3):
                trainer.iterate()
            digests.add(trainer.digest())
        assert len(digests) == 1
        trainer.iterate()
        assert trainer.digest() not in digests

    def test_the_pool_is_held(self, make_trainer: Maker) -> None:
        trainer = make_trainer()
        pool = trainer.pool
        with pytest.raises(canter.Error, match="trainer"):
            pool.step(np.zeros(8, int))
        with pytest.raises(canter.Error, match="held"):
            canter.Trainer(pool, canter.MlpPolicy(pool.spec))
        trainer.close()
        pool.reset()
        assert trainer.closed
        for call in (trainer.iterate, trainer.save, trainer.digest, lambda: trainer.env_steps):
            with pytest.raises(canter.Error, match="closed"):
                call()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"horizn": 3}, 'did you mean "horizon"'),
            ({"total_steps": "many"}, "total_steps must be an integer"),
            ({"seed": -1}, "seed"),
            ({"ppo": {"horizon": 3}}, "ppo must be a PpoOptions"),
            ({"num_minibatches": 0}, "num_minibatches"),
        ],
    )
    def test_refusals(self, options: dict, message: str) -> None:
        pool = canter.make_pool("CartPole-v1")
        policy = canter.MlpPolicy(pool.spec)
        with pytest.raises(canter.InvalidArgument, match=message):
            canter.Trainer(pool, policy, **options)

    def test_wrong_objects(self) -> None:
        pool = canter.make_pool("CartPole-v1")
        other = canter.make_pool("Pendulum-v1")
        with pytest.raises(canter.InvalidArgument, match="policy must be a Policy"):
            canter.Trainer(pool, pool)
        with pytest.raises(canter.InvalidArgument, match="pool must be an EnvPool"):
            canter.Trainer("CartPole-v1", canter.MlpPolicy(pool.spec))
        with pytest.raises(canter.InvalidArgument):
            canter.Trainer(pool, canter.MlpPolicy(other.spec))

    def test_no_copies(self, make_trainer: Maker) -> None:
        trainer = make_trainer()
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="resume"):
                copier(trainer)


class TestTrain:
    def test_callback_and_limits(self, make_trainer: Maker) -> None:
        trainer = make_trainer(total_steps=5 * STEPS)
        seen = []
        assert not trainer.train(lambda report: seen.append(report.iteration) or len(seen) < 2)
        assert seen == [1, 2]
        assert trainer.train(lambda report: seen.append(report.iteration))
        assert seen == [1, 2, 3, 4, 5]
        assert trainer.train(lambda report: seen.append(0))
        assert 0 not in seen

    def test_max_seconds(self, make_trainer: Maker) -> None:
        trainer = make_trainer()
        assert not trainer.train(max_seconds=1e-6)
        assert trainer.iteration == 1

    def test_an_exception_in_the_callback_saves(self, make_trainer: Maker, tmp_path: Path) -> None:
        trainer = make_trainer(tmp_path / "run", total_steps=10**9)

        def fail(report: canter.Report) -> None:
            if report.iteration == 3:
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            trainer.train(fail)
        digest = trainer.digest()
        trainer.close()
        again = make_trainer(tmp_path / "run", total_steps=10**9)
        assert again.resume()
        assert again.iteration == 3
        assert again.digest() == digest

    def test_the_callback_may_use_everything(self, make_trainer: Maker, tmp_path: Path) -> None:
        trainer = make_trainer(tmp_path / "run", total_steps=3 * STEPS)
        returns = []

        def look(report: canter.Report) -> None:
            # case C48: a pool that dies inside a callback, a save, an evaluation
            pool = canter.make_pool("CartPole-v1", num_envs=2)
            returns.append(canter.evaluate(trainer.policy, pool, episodes=2).return_mean)
            del pool
            gc.collect()
            trainer.save()
            trainer.digest()
            assert trainer.env_steps == report.env_steps

        assert trainer.train(look)
        assert len(returns) == 3

    def test_closing_in_the_callback_ends_the_run(self, make_trainer: Maker) -> None:
        trainer = make_trainer(total_steps=10 * STEPS)
        seen = []

        def close(report: canter.Report) -> None:
            seen.append(report.iteration)
            trainer.close()

        assert not trainer.train(close)
        assert seen == [1]
        assert trainer.closed

    def test_stop_from_another_thread(self, make_trainer: Maker) -> None:
        trainer = make_trainer(total_steps=10**12)
        running = threading.Event()
        thread = threading.Thread(target=lambda: trainer.train(lambda report: running.set()))
        thread.start()
        assert running.wait(30)
        trainer.stop()
        thread.join(30)
        assert not thread.is_alive()
        assert trainer.stop_requested
        trainer.clear_stop()
        assert trainer.iterate().iteration > 1

    def test_a_second_thread_is_refused_and_the_policy_waits(self, make_trainer: Maker) -> None:
        trainer = make_trainer(total_steps=10**12)
        running = threading.Event()
        thread = threading.Thread(target=lambda: trainer.train(lambda report: running.set()))
        thread.start()
        assert running.wait(30)
        refused = 0
        for _ in range(200):
            try:
                trainer.iterate()
            except canter.Error as error:
                refused += "another thread" in str(error)
            assert trainer.policy.act(np.zeros(4), deterministic=True) in (0, 1)
        trainer.stop()
        thread.join(30)
        assert refused > 0


class TestResume:
    def test_bit_for_bit(self, make_trainer: Maker, tmp_path: Path) -> None:
        straight = make_trainer()
        for _ in range(6):
            straight.iterate()
        first = make_trainer(tmp_path / "run")
        for _ in range(3):
            first.iterate()
        first.save()
        del first
        gc.collect()
        second = make_trainer(tmp_path / "run")
        assert second.resume()
        for _ in range(3):
            second.iterate()
        assert second.digest() == straight.digest()
        for name, array in second.policy.parameters.items():
            assert array.tobytes() == straight.policy.parameters[name].tobytes()

    def test_nothing_there(self, make_trainer: Maker, tmp_path: Path) -> None:
        assert not make_trainer(tmp_path / "run").resume()

    def test_without_a_directory(self, make_trainer: Maker) -> None:
        with pytest.raises(canter.InvalidArgument, match="directory"):
            make_trainer().save()


INTERRUPTED = """
import signal, sys, threading, canter
pool = canter.make_pool("CartPole-v1", num_envs=8, seed=1)
policy = canter.MlpPolicy(pool.spec, hidden=[16], seed=1)
ppo = canter.PpoOptions(horizon=16, num_minibatches=2, num_epochs=2)
trainer = canter.Trainer(pool, policy, ppo=ppo, directory="run", save_interval_seconds=-1,
                         total_steps=10**12)
{body}
"""


class TestInterrupt:
    """Case C50: a signal ends a run at an iteration boundary, saved, and raises."""

    def check(self, trainer: canter.Trainer, directory: Path, make_trainer: Maker) -> None:
        digest, iteration = trainer.digest(), trainer.iteration
        assert iteration >= 1
        trainer.close()
        again = make_trainer(directory, total_steps=10**12)
        assert again.resume()
        assert (again.iteration, again.digest()) == (iteration, digest)
        assert again.iterate().iteration == iteration + 1

    def test_raised_in_a_callback(self, make_trainer: Maker, tmp_path: Path) -> None:
        trainer = make_trainer(tmp_path / "run", total_steps=10**12, save_interval_seconds=-1)
        with pytest.raises(KeyboardInterrupt):
            trainer.train(lambda report: report.iteration < 3 or signal.raise_signal(signal.SIGINT))
        self.check(trainer, tmp_path / "run", make_trainer)

    def test_while_native_code_runs(self, make_trainer: Maker, tmp_path: Path) -> None:
        trainer = make_trainer(tmp_path / "run", total_steps=10**12, save_interval_seconds=-1)
        main_thread = threading.main_thread().ident
        timer = threading.Timer(0.2, lambda: signal.pthread_kill(main_thread, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            trainer.train()
        self.check(trainer, tmp_path / "run", make_trainer)

    def test_in_a_loop_of_iterate(self, make_trainer: Maker, tmp_path: Path) -> None:
        # iterations long enough for the signal to come inside one
        pool = canter.make_pool("CartPole-v1", num_envs=64, seed=1, num_threads=1)
        policy = canter.MlpPolicy(pool.spec, seed=1)
        trainer = canter.Trainer(
            pool, policy, horizon=256, directory=tmp_path / "run", save_interval_seconds=-1
        )
        main_thread = threading.main_thread().ident
        timer = threading.Timer(0.3, lambda: signal.pthread_kill(main_thread, signal.SIGINT))
        timer.start()

        def loop() -> None:
            while True:
                trainer.iterate()

        with pytest.raises(KeyboardInterrupt):
            loop()
        steps = trainer.env_steps
        trainer.close()
        again = canter.Trainer(pool, policy, horizon=256, directory=tmp_path / "run")
        assert again.resume()
        assert again.env_steps == steps > 0

    def test_ctrl_c_of_a_process(
        self, make_trainer: Maker, tmp_path: Path, run_python: object
    ) -> None:
        body = """
def interrupt(report):
    if report.iteration == 5:
        threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
main = threading.main_thread().ident
trainer.train(interrupt)
"""
        result: subprocess.CompletedProcess[str] = run_python("-c", INTERRUPTED.format(body=body))
        assert result.returncode in (130, -signal.SIGINT), result.stderr
        assert result.stderr.rstrip().endswith("KeyboardInterrupt")
        again = make_trainer(tmp_path / "run", total_steps=10**12)
        assert again.resume()
        assert again.iteration >= 5

    def test_a_thread_that_is_not_main_goes_on(self, make_trainer: Maker) -> None:
        trainer = make_trainer(total_steps=200 * STEPS)
        done = []
        thread = threading.Thread(target=lambda: done.append(trainer.train()))
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        thread.join(60)
        assert done == [True]

    def test_no_handler_is_installed(self, run_python: object) -> None:
        body = """
before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)]
trainer.iterate()
assert before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)]
"""
        result: subprocess.CompletedProcess[str] = run_python("-c", INTERRUPTED.format(body=body))
        assert result.returncode == 0, result.stderr
        assert result.stdout + result.stderr == ""
