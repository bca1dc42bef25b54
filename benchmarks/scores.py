#!/usr/bin/env python3
"""Trains with a preset on several tasks and seeds, and writes a table of scores.

Usage: python benchmarks/scores.py [--preset NAME] [--envs NAME ...] [--seeds N ...] [--jobs N]

A score is the mean return of the last 100 training episodes of a run, as CleanRL publishes it; the
table has mean and standard deviation over the seeds. Every (task, seed) is a run of its own with
one thread; finished runs are kept and interrupted ones go on where they were, so the command can be
stopped at any time and given again. The table goes to benchmarks/scores.md and scores.jsonl.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys
from importlib.util import find_spec

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "build" / "scores"

# environment steps, and the score that the published settings must reach
TASKS = {
    "HalfCheetah-v5": (1_000_000, 1300),
    "Hopper-v5": (1_000_000, 1900),
    "InvertedPendulum-v5": (1_000_000, 900),
    "CartPole-v1": (500_000, 475),
}


def train(env: str, seed: int, preset: str, total_steps: int) -> None:
    """Trains one run to its end in this process."""
    import canter

    canter.train(
        env,
        total_steps=total_steps,
        seed=seed,
        preset=preset,
        num_threads=1,
        directory=RUNS / preset / f"{env}-seed{seed}",
        progress=False,
        pictures=False,
    )


def last_report(directory: pathlib.Path) -> dict:
    """The last line of a run's metrics, or an empty report."""
    file = directory / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return json.loads(lines[-1]) if lines else {}


def score(env: str, seed: int, preset: str, total_steps: int) -> dict:
    """Score of one run, which a process of its own trains if it is not finished."""
    directory = RUNS / preset / f"{env}-seed{seed}"
    report = last_report(directory)
    if report.get("env_steps", 0) < total_steps:
        command = [sys.executable, __file__, "--one", env, str(seed), preset, str(total_steps)]
        subprocess.run(command, check=True)
        report = last_report(directory)
    row = {
        "env": env,
        "seed": seed,
        "preset": preset,
        "env_steps": report["env_steps"],
        "score": report["episode_return_mean"],
        "episodes": report["episodes"],
        "seconds": report["seconds"],
    }
    print(f"{env} seed {seed}: {row['score']:.1f} after {row['seconds']:.0f} s", flush=True)
    return row


def table(rows: list[dict], preset: str) -> str:
    """Markdown: one line per task."""
    lines = [
        f"Preset `{preset}`: mean return of the last 100 training episodes, over seeds.",
        "",
        "| task | steps | seeds | mean | std | of each seed | wanted |",
        "|---|---:|---:|---:|---:|---|---:|",
    ]
    for env in dict.fromkeys(row["env"] for row in rows):
        scores = [row["score"] for row in rows if row["env"] == env]
        steps = max(row["env_steps"] for row in rows if row["env"] == env)
        wanted = TASKS[env][1] if preset == "cleanrl" and env in TASKS else None
        std = statistics.stdev(scores) if len(scores) > 1 else 0.0
        each = ", ".join(f"{x:.0f}" for x in scores)
        lines.append(
            f"| {env} | {steps:,} | {len(scores)} | {statistics.mean(scores):.1f} | {std:.1f} "
            f"| {each} | {'' if wanted is None else f'>= {wanted}'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cleanrl")
    parser.add_argument("--envs", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--total-steps", type=int, help="instead of the task's own number")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "benchmarks" / "scores")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        env, seed, preset, total_steps = arguments.one
        train(env, int(seed), preset, int(total_steps))
        return 0
    if not find_spec("canter"):
        sys.exit("canter is not installed here: PYTHONPATH=build/release/python, or pip install .")

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        futures = [
            workers.submit(
                score,
                env,
                seed,
                arguments.preset,
                arguments.total_steps or TASKS.get(env, (1_000_000, 0))[0],
            )
            for env in arguments.envs
            for seed in arguments.seeds
        ]
        rows = [future.result() for future in futures]
    text = table(rows, arguments.preset)
    arguments.output.with_suffix(".md").write_text(text)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    arguments.output.with_suffix(".jsonl").write_text(lines)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
