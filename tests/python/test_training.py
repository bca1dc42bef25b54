"""train(), Run, pictures, TensorBoard, progress: what a run directory holds."""

import json
import re
import signal
import struct
from pathlib import Path

import numpy as np
import pytest

import canter
from canter import pictures, progress, training

OPTIONS = {"num_envs": 8, "horizon": 32, "num_minibatches": 4, "num_epochs": 2, "seed": 3}
STEPS = 8 * 32


def train(directory: Path | str, iterations: int = 4, **options: object) -> canter.Run:
    merged = {"preset": "", "progress": False, **OPTIONS, **options}
    return canter.train(
        "CartPole-v1", total_steps=iterations * STEPS, directory=directory, **merged
    )


class TestTrain:
    def test_a_run_directory(self, tmp_path: Path) -> None:
        run = train(tmp_path / "run", pictures=True)
        assert run.done
        assert run.directory == tmp_path / "run"
        names = {path.name for path in run.directory.iterdir()}
        assert names == {
            "config.toml",
            "metrics.jsonl",
            "checkpoints",
            "policy.safetensors",
            "curve.png",
        }
        lines = (run.directory / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["env_steps"] for line in lines] == [STEPS * i for i in range(1, 5)]
        assert run.metrics["env_steps"].tolist() == [STEPS * i for i in range(1, 5)]
        steps, returns = run.curve()
        assert len(steps) == len(returns) > 0
        # an 8-byte signature, then the size
        picture = (run.directory / "curve.png").read_bytes()
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert min(struct.unpack(">II", picture[16:24])) >= 100

    def test_a_directory_with_an_impossible_name(self, tmp_path: Path) -> None:
        with pytest.raises(canter.Error, match="File name too long"):
            train(tmp_path / ("x" * 300))

    def test_lines_that_are_no_reports(self, tmp_path: Path) -> None:
        run = train(tmp_path / "run")
        good = run.metrics["env_steps"].tolist()
        with open(tmp_path / "run" / "metrics.jsonl", "ab") as file:
            file.write(b'\xff\xfe\n[1]\n3\n{}\nnull\n{"env_steps": 7')
        run = canter.Run.load(tmp_path / "run")
        assert run.metrics["env_steps"].tolist() == good
        assert run.env_steps == good[-1]
        assert repr(run)

    def test_the_policy_is_that_of_the_file(self, tmp_path: Path) -> None:
        run = train(tmp_path / "run")
        rows = np.random.default_rng(1).normal(size=(50, 4))
        loaded = canter.Run.load(tmp_path / "run")
        np.testing.assert_array_equal(run.policy.value(rows), loaded.policy.value(rows))
        assert (
            run.evaluate(episodes=4).returns.tobytes()
            == loaded.evaluate(episodes=4).returns.tobytes()
        )

    def test_resume(self, tmp_path: Path) -> None:
        straight = train(tmp_path / "straight", 6)
        train(tmp_path / "run", 3, learning_rate_schedule="constant")
        seen = []
        run = train(tmp_path / "run", 6, callback=lambda r: seen.append(r.iteration))
        assert seen == [4, 5, 6]
        assert run.env_steps == 6 * STEPS
        # again: nothing is left to do
        again = train(tmp_path / "run", 6, callback=lambda r: seen.append(0))
        assert seen == [4, 5, 6]
        assert again.done
        assert straight.done

    def test_a_stopped_run_goes_on_bit_for_bit(self, tmp_path: Path) -> None:
        straight = train(tmp_path / "straight", 6)
        train(tmp_path / "run", 6, callback=lambda r: r.iteration < 3)
        run = train(tmp_path / "run", 6, num_threads=2)
        for name, array in run.policy.parameters.items():
            assert array.tobytes() == straight.policy.parameters[name].tobytes()

    def test_a_moved_run_goes_on(self, tmp_path: Path) -> None:
        train(tmp_path / "a", 2)
        (tmp_path / "a").rename(tmp_path / "b")
        assert train(tmp_path / "b", 3).env_steps == 3 * STEPS

    def test_what_may_not_change(self, tmp_path: Path) -> None:
        train(tmp_path / "run", 2)
        with pytest.raises(canter.InvalidArgument, match=r"learning_rate is 0\.5, but 3e-04"):
            train(tmp_path / "run", 2, learning_rate=0.5)
        with pytest.raises(canter.InvalidArgument, match="holds a run already"):
            train(tmp_path / "run", 2, resume=False)

    def test_defaults(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        run = canter.train(
            "CartPole-v1", num_envs=4, seed=2, horizon=8, progress=False, callback=lambda r: False
        )
        assert run.directory == Path("runs/CartPole-v1-seed2")
        assert run.total_steps == 100_000
        assert not run.done
        assert run.env_steps == 32
        assert {path.name for path in tmp_path.iterdir()} == {"runs"}

    def test_nothing_is_written_without_a_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        run = train("")
        assert list(tmp_path.iterdir()) == []
        assert run.env_steps == 4 * STEPS
        assert len(run.reports) == 4

    @pytest.mark.parametrize(
        ("env", "options", "message"),
        [
            ("CartPole-v2", {}, 'did you mean "CartPole-v1"'),
            ("CartPole-v1", {"num_env": 3}, 'did you mean "num_envs"'),
            ("CartPole-v1", {"preset": "cleanrll"}, 'did you mean "cleanrl"'),
            ("CartPole-v1", {"gamma": "high"}, "gamma must be"),
        ],
    )
    def test_refusals(self, tmp_path: Path, env: str, options: dict, message: str) -> None:
        with pytest.raises(canter.InvalidArgument, match=message):
            canter.train(env, directory=tmp_path / "run", progress=False, **options)
        assert not (tmp_path / "run").exists()

    def test_presets(self, tmp_path: Path) -> None:
        for preset in canter.preset_names():
            run = canter.train(
                "CartPole-v1",
                preset=preset,
                directory=tmp_path / preset,
                progress=False,
                callback=lambda r: False,
            )
            assert run.options.preset == preset
            # without a preset a resumed run keeps its own
            assert (
                canter.train(
                    "CartPole-v1", directory=tmp_path / preset, progress=False, max_seconds=1e-6
                ).options.preset
                == preset
            )

    def test_an_empty_directory_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(canter.InvalidArgument, match="no run directory"):
            canter.Run.load(tmp_path)


class TestInterrupt:
    """Case C50: wherever in Python the signal is seen, the run is saved and goes on."""

    @pytest.mark.parametrize("iteration", [0, 1, 3])
    def test_signal(self, tmp_path: Path, iteration: int, capsys: object) -> None:
        straight = train(tmp_path / "straight", 4)

        def interrupt(report: canter.Report) -> None:
            if report.iteration == iteration:
                signal.raise_signal(signal.SIGINT)

        def interrupt_early(total_steps: int, env_steps: int) -> None:
            signal.raise_signal(signal.SIGINT)

        with pytest.MonkeyPatch.context() as patch:
            if iteration == 0:
                patch.setattr("canter.training.make_progress", interrupt_early)
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path / "run", 4, progress=True, callback=interrupt)
        assert f"interrupted: saved at {iteration * STEPS:,} steps" in capsys.readouterr().out
        run = train(tmp_path / "run", 4)
        assert run.done
        for name, array in run.policy.parameters.items():
            assert array.tobytes() == straight.policy.parameters[name].tobytes()

    def test_without_a_directory(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            train("", callback=lambda report: signal.raise_signal(signal.SIGINT))


class TestProgress:
    def test_lines(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        train(tmp_path / "run", progress=True, pictures=False)
        lines = capsys.readouterr().out.splitlines()
        assert re.fullmatch(
            r"CartPole-v1: 8 environments, \d+ threads?, [\d.]+ MiB of memory, "
            r"checkpoints of [\d.]+ MiB in .*run",
            lines[0],
        )
        assert re.fullmatch(
            r"1,024 steps of 1,024 \(100 %\), [\d,]+ steps/s, return [\d.]+, 0:00 left", lines[1]
        )
        assert lines[2].startswith("1,024 steps: return")
        train(tmp_path / "run", progress=True, pictures=False)
        assert "done already: 1,024 of 1,024 steps" in capsys.readouterr().out
        train(tmp_path / "run", 5, progress=True, pictures=False)
        assert "resumed at 1,024 of 1,280 steps" in capsys.readouterr().out

    def test_silence(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        train(tmp_path / "run")
        assert capfd.readouterr() == ("", "")

    def test_bar(self, capsys: pytest.CaptureFixture[str]) -> None:
        bar = progress.Bar(total_steps=2 * STEPS, env_steps=0)
        train("", 2, progress=bar.update)
        bar.close()
        out = capsys.readouterr().out
        assert "100%" in out
        assert "return" in out
        assert "step/s" in out

    def test_a_function(self) -> None:
        seen: list[int] = []
        train("", 3, progress=lambda report: seen.append(report.iteration))
        assert seen == [1, 2, 3]


class TestTensorBoard:
    def test_scalars(self, tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        run = train(tmp_path / "run", 3, tensorboard=True)
        train(tmp_path / "run", 4, tensorboard=True)
        events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
        losses = events.Scalars("loss/value_loss")
        assert [event.step for event in losses] == [STEPS * i for i in range(1, 5)]
        np.testing.assert_allclose(
            [event.value for event in losses][:3], run.metrics["value_loss"][:3], rtol=1e-6
        )
        with pytest.raises(canter.InvalidArgument, match="directory"):
            train("", tensorboard=True)


@pytest.fixture(scope="module")
def cheetah(tmp_path_factory: pytest.TempPathFactory) -> canter.Run:
    return canter.train(
        "HalfCheetah-v5",
        total_steps=64,
        num_envs=4,
        horizon=16,
        num_minibatches=2,
        directory=tmp_path_factory.mktemp("runs") / "cheetah",
        progress=False,
    )


class TestPictures:
    def test_film(self, cheetah: canter.Run, tmp_path: Path) -> None:
        path, reason = pictures.film(cheetah, tmp_path, num_frames=3)
        if path is None:
            assert reason.startswith("no video: no OpenGL backend works (egl: ")
            pytest.skip(reason)
        assert path.parent == tmp_path
        assert path.stat().st_size > 1000

    def test_filmed_once_for_each_policy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        there: list[bool] = []
        video = tmp_path / "video.mp4"

        def film(run: canter.Run, directory: Path) -> tuple[Path, str]:
            there.append(video.exists())
            video.touch()
            return video, ""

        monkeypatch.setattr(training, "film", film)
        for iterations, films in ((1, 1), (1, 1), (2, 2)):
            train(tmp_path, iterations, pictures=True)
            assert len(there) == films
        # the film of the older policy was gone before the new one was made
        assert there == [False, False]

    def test_no_backend(
        self, cheetah: canter.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MUJOCO_GL", "nonsense")
        path, reason = pictures.film(cheetah, tmp_path, num_frames=3)
        assert path is None
        assert reason.startswith("no video: no OpenGL backend works (nonsense: ")
        assert "\n" not in reason

    def test_no_model(self, tmp_path: Path) -> None:
        run = train(tmp_path / "run", 1)
        path, reason = pictures.film(run, tmp_path)
        assert path is None
        assert reason == "no video: CartPole-v1 has no MuJoCo model"

    def test_no_episode_yet(self, cheetah: canter.Run, tmp_path: Path) -> None:
        assert "no episode" in pictures.draw_curve(cheetah, tmp_path / "curve.png")
        assert not (tmp_path / "curve.png").exists()
