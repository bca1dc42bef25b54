"""The canter command: exit codes, one-line errors, what it prints."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PACKAGE_PARENT

import canter
from canter import cli

TRAIN = ["train", "CartPole-v1", "--num-envs", "8", "--horizon=32", "--hidden", "16"]
TRAIN += ["--num-minibatches", "2", "--num-epochs", "2", "--no-pictures"]


@pytest.fixture
def run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*TRAIN, "--total-steps", "512", "--directory", "run", "--quiet"]) == 0
    return tmp_path / "run"


def test_train(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert capsys.readouterr().out == ""
    run = canter.Run.load(run_directory)
    assert run.done
    assert run.options.to_dict()["hidden"] == [16]
    assert cli.main([*TRAIN, "--total-steps", "768", "--directory", "run"]) == 0
    out = capsys.readouterr().out
    assert "resumed at 512 of 768 steps" in out
    assert out.splitlines()[-1].startswith("768 steps: return")


def test_eval(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(run_directory), "--episodes", "5"]) == 0
    first = capsys.readouterr().out
    assert "5 episodes" in first
    policy = str(run_directory / "policy.safetensors")
    assert cli.main(["eval", policy, "CartPole-v1", "--episodes", "5"]) == 0
    assert capsys.readouterr().out == first


def test_info(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", str(run_directory)]) == 0
    out = capsys.readouterr().out
    assert "done: 512 of 512 steps" in out
    assert "horizon = 32" in out
    assert cli.main(["info", str(run_directory / "policy.safetensors")]) == 0
    assert "actor.0.weight: [16, 4]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["train", "CartPole-v2"], 2, 'did you mean "CartPole-v1"'),
        (["train", "CartPole-v1", "--num-env", "3"], 2, 'did you mean "num_envs"'),
        (["train", "CartPole-v1", "--num-envs", "x"], 2, "num_envs must be an integer"),
        (["train", "CartPole-v1", "--num-envs"], 2, "--num-envs needs a value"),
        (["train", "CartPole-v1", "5"], 2, "the task comes first"),
        (["info", "/nowhere"], 1, "/nowhere"),
        (["info", "."], 2, "no run directory"),
        (["eval", "/nowhere", "CartPole-v1"], 1, "/nowhere"),
        (["eval", "/nowhere"], 2, "neither a run directory nor a file"),
        (["eval", "/dev/null"], 2, "name of a task"),
        (["doctor", "--all"], 2, "--all"),
    ],
)
def test_errors_are_one_line(
    words: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("canter: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "train" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"canter {canter.__version__}\n"


def test_doctor(run_python: object) -> None:
    result: subprocess.CompletedProcess[str] = run_python("-m", "canter", "doctor")
    assert result.returncode == 0, result.stdout + result.stderr
    for name in ("canter", "mujoco", "libmujoco", "cpu", "kernels", "usable cores", "OpenGL"):
        assert f"  {name} " in result.stdout
    for line in result.stdout.splitlines():
        if line.startswith(("bad", "note")):
            assert "fix: " in line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_signal_in_a_terminal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A signal while the bar is drawn in a terminal: saved, a code of its own, and it goes on."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "canter", *TRAIN, "--directory", "run", "--total-steps"]
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PARENT}
    process = subprocess.Popen(
        [*command, "1000000000"],
        cwd=tmp_path,
        env=environment,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    shown = b""
    # the bar has a return: iterations have been done
    while b"return" not in shown:
        shown += os.read(leader, 4096)
    process.send_signal(number)
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        shown += piece
        if not piece:
            break
    assert process.wait(30) == code
    os.close(leader)
    text = shown.decode()
    assert "interrupted: saved at" in text
    assert "Traceback" not in text
    steps = canter.Run.load(tmp_path / "run").env_steps
    assert steps > 0
    result = subprocess.run(
        [*command, str(steps + 256)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert f"resumed at {steps:,} of" in result.stdout
