#!/usr/bin/env python3
"""Measures canter and prints one table of results and budgets.

Usage: python benchmarks/run.py [--build DIR] [--peers] [--json FILE] [--only WORD]

Ratios are medians of alternating pairs within one run, in CPU time unless the row says otherwise:
machines drift, so figures of different runs cannot be compared, ratios can. `--peers` adds rivals;
the first time it installs them into an environment of their own, below build/peers.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
import versus  # noqa: E402


@dataclasses.dataclass
class Budget:
    """What a row is held against; `least`: the value must be at least this, else at most."""

    value: float | None
    least: bool = True
    judged: bool = True


def at_least(value: float) -> Budget:
    return Budget(value)


def at_most(value: float) -> Budget:
    return Budget(value, least=False)


# every row of the table in its order; rows that are not here have no budget
BUDGETS = {
    "pool / usual C loop, 1024 x HalfCheetah-v5": at_least(1.0),
    "pool / usual C loop, 1024 x InvertedPendulum-v5": at_least(1.0),
    "pool / usual C loop, 1024 x Ant-v5": at_least(1.0),
    "pool / ideal C loop, 64 x Ant-v5": at_least(0.97),
    "pool / ideal C loop, 64 x HalfCheetah-v5": at_least(0.95),
    "pool / ideal C loop, 64 x InvertedPendulum-v5": at_least(0.93),
    "pool overhead per step without physics, 64 x HalfCheetah-v5": at_most(0.6),
    "pool overhead per step without physics, 1024 x HalfCheetah-v5": at_most(0.6),
    "allocations per pool step": at_most(0),
    "allocations per iteration": at_most(0),
    "memory per extra HalfCheetah-v5": at_most(2048),
    "construct 1024 x HalfCheetah-v5, model loaded": at_most(10),
    "MlpPolicy update / LibTorch eager, minibatch 64": at_least(15),
    "MlpPolicy update / LibTorch eager, minibatch 512": at_least(4.5),
    "MlpPolicy update / LibTorch eager, minibatch 2048": at_least(3.5),
    "share of the core's FMA peak, minibatch 64": at_least(50),
    "share of the core's FMA peak, minibatch 512": at_least(50),
    "share of the core's FMA peak, minibatch 2048": at_least(50),
    "act, 64 environments": at_most(60),
    "two threads, rollout scaling / raw loop's": at_least(0.92),
    "two threads over one, update, minibatch 64": at_least(1.3),
    "two threads over one, update, minibatch 512": at_least(1.5),
    "training, HalfCheetah-v5, one thread": Budget(None),
    "training / RLtools with MKL": at_least(1.4),
    "training / Stable-Baselines3": at_least(12),
    "training, two threads / RLtools, wall time": at_least(2.2),
    "checkpoint stall / memcpy, 1024 environments": Budget(1.5, least=False, judged=False),
}


def judge(name: str, value: float | None) -> bool | None:
    """Whether a row meets its budget; None where it is not judged."""
    budget = BUDGETS.get(name, Budget(None))
    if budget.value is None or not budget.judged:
        return None
    if value is None:
        return False
    return value >= budget.value if budget.least else value <= budget.value


def programs(build: pathlib.Path, models: pathlib.Path) -> dict[str, list[str]]:
    """The C++ programs and their arguments."""
    folder = build / "benchmarks"
    return {
        "pool": [str(folder / "bench_pool"), str(models)],
        "pool_cost": [str(folder / "bench_pool_cost"), str(models)],
        "allocations": [str(folder / "bench_allocations"), str(models)],
        "learner": [str(folder / "bench_learner")],
        "torch_update": [str(folder / "bench_torch_update")],
        "training": [str(folder / "bench_training"), str(models)],
    }


def measure(name: str, command: list[str]) -> Iterator[dict]:
    """Rows of one program; what it says beside them goes to stderr."""
    print(f"-- {name}", file=sys.stderr, flush=True)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    for line in result.stdout.splitlines():
        yield json.loads(line)
    if result.returncode:
        print(f"{name} failed with code {result.returncode}", file=sys.stderr)


def memory_per_environment(command: list[str]) -> dict:
    """Resident bytes of each environment between 1024 and 9216 of them."""
    few, many = 1024, 9216
    size = {n: int(subprocess.check_output([*command, str(n)], text=True)) for n in (few, many)}
    per_environment = (size[many] - size[few]) / (many - few)
    return {"name": "memory per extra HalfCheetah-v5", "value": per_environment, "unit": "bytes"}


def model_folder() -> pathlib.Path:
    """Where the installed gymnasium keeps its models."""
    found = find_spec("gymnasium")
    if not found or not found.submodule_search_locations:
        sys.exit(f"gymnasium is not installed: {sys.executable} -m pip install 'gymnasium[mujoco]'")
    return pathlib.Path(found.submodule_search_locations[0], "envs", "mujoco", "assets")


def heading(build: pathlib.Path) -> list[str]:
    """Machine, compiler and commit."""
    cpu = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    cache = (build / "CMakeCache.txt").read_text()
    compiler = next(x for x in cache.splitlines() if x.startswith("CMAKE_CXX_COMPILER:"))
    version = subprocess.check_output([compiler.split("=", 1)[1], "--version"], text=True)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return [
        f"machine   {cpu}, {cores} cores, load {load:.1f}, {platform.platform()}",
        f"compiler  {version.splitlines()[0]}",
        f"commit    {commit or 'unknown'}",
        f"command   {' '.join(['python', *sys.argv])}",
    ]


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def table(rows: list[dict]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | value | budget | met |", "|---|---:|---:|---|"]
    for row in rows:
        budget = BUDGETS.get(row["name"], Budget(None))
        limit = "" if budget.value is None else number(budget.value)
        if limit:
            limit = f"{'>=' if budget.least else '<='} {limit}"
        met = {True: "yes", False: "**no**", None: "not judged" if limit else ""}[row["ok"]]
        unit = row["unit"] if row["value"] is not None else "not measured"
        lines.append(f"| {row['name']} | {number(row['value'])} {unit} | {limit} | {met} |")
    return "\n".join(lines)


def complete(measured: list[dict], with_peers: bool) -> list[dict]:
    """Rows in the table's order with budgets and verdicts; a missing row counts as not met."""
    values = {row["name"]: row for row in measured}
    names = [*BUDGETS, *(name for name in values if name not in BUDGETS)]
    rows = []
    for name in names:
        row = values.get(name, {"value": None, "unit": ""})
        needs_peers = name.startswith(("training /", "training, two threads /"))
        ok = None if needs_peers and not with_peers else judge(name, row["value"])
        budget = BUDGETS.get(name, Budget(None)).value
        rows.append(
            {"name": name, "value": row["value"], "budget": budget, "unit": row["unit"], "ok": ok}
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--peers", action="store_true", help="measure the rivals too")
    parser.add_argument("--json", type=pathlib.Path, help="write one JSON object per row")
    parser.add_argument("--only", default="", help="run the programs whose names hold this")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    subprocess.run(["cmake", "--build", str(build), "--target", "benchmarks"], check=True)

    models = model_folder()
    measured: list[dict] = []
    for name, command in programs(build, models).items():
        if arguments.only not in name or not pathlib.Path(command[0]).exists():
            continue
        measured += measure(name, command)
        if name == "pool_cost":
            measured.append(memory_per_environment(command))
    if arguments.peers:
        contender = str(build / "benchmarks" / "bench_contender")
        measured += versus.measure(contender, models)

    rows = complete(measured, arguments.peers)
    print("\n".join(heading(build)), "", table(rows), sep="\n")
    missed = [row["name"] for row in rows if row["ok"] is False]
    print(f"\n{len(missed)} budgets missed" + "".join(f"\n  {name}" for name in missed))
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
