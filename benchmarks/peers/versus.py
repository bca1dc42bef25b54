"""canter against its peers, in alternating turns: pools, and whole PPO trainers."""

import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterator

from turns import Contender

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENT = ROOT / "build" / "peers" / "venv"
TORCH = "torch==2.13.0"
PACKAGES = (
    "gymnasium[mujoco]==1.4.*",
    "envpool==1.2.5",
    "stable-baselines3==2.9.2",
    "rltools==2.2.1",
    "mkl",
    "mkl-include",
)
MODELS = {
    "HalfCheetah-v5": "half_cheetah.xml",
    "Ant-v5": "ant.xml",
    "InvertedPendulum-v5": "inverted_pendulum.xml",
}


def set_up() -> str:
    """Installs the peers, torch first and alone; the second time it does nothing."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed.txt"
    wanted = "\n".join((TORCH, *PACKAGES))
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"-- installing the peers into {ENVIRONMENT}", file=sys.stderr, flush=True)
        ENVIRONMENT.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        constraint = ENVIRONMENT / "constraint.txt"
        constraint.write_text(TORCH + "\n")
        install = [str(python), "-m", "pip", "install", "-qq"]
        subprocess.run([*install, TORCH], check=True)
        subprocess.run([*install, "-c", str(constraint), *PACKAGES], check=True)
        stamp.write_text(wanted)
    return str(python)


def take_turns(contenders: list[Contender], rounds: int, seconds: float) -> None:
    """Lets all work in turn, `rounds` times, and ends them."""
    for _ in range(rounds):
        for contender in contenders:
            contender.go(seconds)
    for contender in contenders:
        contender.close()


def speed_ratio(ours: Contender, theirs: Contender, clock: int) -> float:
    """Median over the rounds of our steps per second over theirs; clock 1: wall, 2: CPU."""
    pairs = zip(ours.turns, theirs.turns, strict=True)
    return statistics.median((a[0] / a[clock]) / (b[0] / b[clock]) for a, b in pairs)


def speed(contender: Contender, clock: int) -> float:
    """Median steps per second."""
    return statistics.median(turn[0] / turn[clock] for turn in contender.turns)


def say(contenders: list[Contender]) -> None:
    for c in contenders:
        line = f"{c.name} {c.version}: {speed(c, 2):,.0f} steps/CPU s, {speed(c, 1):,.0f} steps/s"
        print(line, file=sys.stderr, flush=True)


def pools(contender: str, models: pathlib.Path, python: str) -> Iterator[dict]:
    """canter's pool over others', one thread each."""
    script = str(HERE / "pools.py")
    for task, num_envs, kinds in (
        ("HalfCheetah-v5", 64, ("batch", "envpool", "gymnasium")),
        ("HalfCheetah-v5", 1024, ("batch", "envpool")),
        ("Ant-v5", 64, ("batch", "envpool", "gymnasium")),
        ("InvertedPendulum-v5", 64, ("batch", "envpool", "gymnasium")),
    ):
        size = (str(num_envs), "1")
        print(f"-- pools, {num_envs} x {task}", file=sys.stderr, flush=True)
        ours = Contender("canter", [contender, "pool", task, str(models / MODELS[task]), *size])
        others = [Contender(kind, [python, script, kind, task, *size]) for kind in kinds]
        take_turns([ours, *others], rounds=7, seconds=0.5)
        say([ours, *others])
        names = {"batch": "mujoco.batch + NumPy task", "envpool": "EnvPool 1.2.5"}
        for other in others:
            name = names.get(other.name, "Gymnasium vector")
            row = f"pool / {name}, {num_envs} x {task}"
            yield {"name": row, "value": speed_ratio(ours, other, 2), "unit": "x"}


def trainers(contender: str, models: pathlib.Path, python: str) -> Iterator[dict]:
    """canter's trainer over others', HalfCheetah-v5, 64 environments."""
    print("-- trainers", file=sys.stderr, flush=True)
    script = str(HERE / "trainers.py")

    def canter(num_threads: int) -> Contender:
        command = [contender, "train", str(models), str(num_threads)]
        return Contender(f"canter, {num_threads} threads", command, num_threads)

    def peer(kind: str, num_threads: int) -> Contender:
        command = [python, script, kind, "64", str(num_threads)]
        return Contender(f"{kind}, {num_threads} threads", command, num_threads)

    ours, ours_pair = canter(1), canter(2)
    rltools, rltools_pair, sb3 = peer("rltools", 1), peer("rltools", 2), peer("sb3", 1)
    everyone = [ours, rltools, ours_pair, rltools_pair, sb3]
    take_turns(everyone, rounds=7, seconds=2)
    say(everyone)
    # in wall time RLtools runs with as many MKL threads as suit it better
    fastest = max(rltools, rltools_pair, key=lambda c: speed(c, 1))
    for name, value in (
        ("training / RLtools with MKL", speed_ratio(ours, rltools, 2)),
        ("training / Stable-Baselines3", speed_ratio(ours, sb3, 2)),
        ("training, two threads / RLtools, wall time", speed_ratio(ours_pair, fastest, 1)),
    ):
        yield {"name": name, "value": value, "unit": "x"}


def measure(contender: str, models: pathlib.Path) -> list[dict]:
    """All rows that need peers."""
    python = set_up()
    return [*trainers(contender, models, python), *pools(contender, models, python)]
