"""Training in one call: a run directory, progress, pictures."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from canter import _core
from canter.assets import find_model_path
from canter.pictures import draw_curve, film
from canter.progress import Progress, make_progress
from canter.runs import Run

Callback = Callable[[_core.Report], Any]

# of a run that names none
DEFAULT_TOTAL_STEPS = 1_000_000
DEFAULT_PRESET = "fast"


def train(
    env: str,
    *,
    total_steps: int | None = None,
    num_envs: int | None = None,
    seed: int | None = None,
    preset: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = True,
    progress: bool | Callback = True,
    callback: Callback | None = None,
    tensorboard: bool = False,
    pictures: bool | None = None,
    max_seconds: float = 0.0,
    **options: Any,
) -> Run:
    """Trains a policy, or goes on with a run that was interrupted.

    Ctrl-C ends it at the next iteration boundary: the run is saved, KeyboardInterrupt is raised,
    and the same call goes on.

    Args:
        env: Name of the task; `canter.registered_tasks()` lists them.
        total_steps: Environment steps of the whole run. Default: the preset's, else 1,000,000.
        num_envs: Environments stepped together.
        seed: Of environments, weights, actions and minibatches.
        preset: "cleanrl" (as published), "fast" (what learns fastest on a laptop), or "" for the
            defaults of the options structs. Default: "fast", or what the resumed run has.
        directory: Run directory. Default: runs/<env>-seed<seed>. "": nothing is written.
        resume: Go on where the directory's run was; with False a directory with a run is refused.
        progress: A bar or lines on stdout, with False nothing, or a function of the Report.
        callback: Called with the Report of every iteration; return False to stop.
        tensorboard: Also write <directory>/tensorboard.
        pictures: Draw curve.png and film the policy at the end. Default: when progress is shown.
        max_seconds: Limit of this call [s]; 0: none.
        **options: Any other option by name: horizon, learning_rate, hidden, num_threads, ...

    Returns:
        The run: `run.policy`, `run.curve()`, `run.metrics`, `run.directory`, `run.done`.

    Raises:
        InvalidArgument: For an unknown name (with the nearest match), a value out of range, or an
            option that differs from that of the run being resumed (total_steps, num_threads and
            the directory may).
        CheckpointError: When the directory's checkpoints are all damaged.

    Examples:
        >>> import canter, tempfile
        >>> run = canter.train("CartPole-v1", total_steps=1024, num_envs=8, horizon=32, seed=1,
        ...                    directory=tempfile.mkdtemp(), progress=False)
        >>> run.done
        True
    """
    given = {"total_steps": total_steps, "num_envs": num_envs, "seed": seed}
    arguments = {name: value for name, value in given.items() if value is not None} | options
    chosen = _resolve(env, preset, directory, arguments)
    saved_in = Path(chosen.directory) if chosen.directory else None
    if not resume and saved_in and (saved_in / "config.toml").exists():
        raise _core.InvalidArgument(
            f"{saved_in} holds a run already; pass resume=True, choose another directory, or "
            "remove it"
        )
    shown = progress is True
    with contextlib.closing(_core.make_trainer(chosen)) as trainer:
        resumed = saved_in is not None and trainer.resume()
        first = trainer.env_steps
        if shown:
            _say_start(trainer, env, resumed)
        reports: list[dict[str, Any]] = []
        try:
            with _callbacks(trainer, progress, callback, tensorboard, reports) as on_report:
                trainer.train(on_report, max_seconds=max_seconds)
        except KeyboardInterrupt:
            # train() has saved, unless the signal came just before or after it
            if trainer.directory:
                trainer.save()
                if shown:
                    _say_interrupted(trainer)
            raise
        policy, advanced = copy.copy(trainer.policy), trainer.env_steps > first
    run = Run(chosen, saved_in, policy=policy, reports=None if saved_in else reports)
    if saved_in and (shown if pictures is None else pictures):
        _draw(run, saved_in, shown, advanced)
    if shown:
        _say_end(run)
    return run


def _resolve(
    env: str,
    preset: str | None,
    directory: str | os.PathLike[str] | None,
    arguments: dict[str, Any],
) -> _core.RunOptions:
    if directory is not None and not os.fspath(directory):
        chosen = _core.RunOptions(env, DEFAULT_PRESET if preset is None else preset, **arguments)
    else:
        where = {} if directory is None else {"directory": os.fspath(directory)}
        chosen = _core.resolve_run(env, preset or "", {**arguments, **where})
        if preset is None and not Path(chosen.directory, "config.toml").exists():
            chosen = _core.resolve_run(env, DEFAULT_PRESET, {**arguments, **where})
    values = chosen.to_dict()
    if not values["total_steps"] and "total_steps" not in arguments:
        chosen.set("total_steps", DEFAULT_TOTAL_STEPS)
    # a run that moved to another machine finds the model file of that machine
    if not Path(values["model_path"]).is_file() and "model_path" not in arguments:
        chosen.set("model_path", find_model_path(env))
    return chosen


@contextlib.contextmanager
def _callbacks(
    trainer: _core.Trainer,
    progress: bool | Callback,
    callback: Callback | None,
    tensorboard: bool,
    reports: list[dict[str, Any]],
) -> Iterator[Callback]:
    with contextlib.ExitStack() as stack:
        called: list[Callback] = []
        if not trainer.directory:
            called.append(lambda report: reports.append(report.as_dict()))
        if callable(progress):
            called.append(progress)
        elif progress:
            bar: Progress = make_progress(trainer.total_steps, trainer.env_steps)
            stack.callback(bar.close)
            called.append(bar.update)
        if tensorboard:
            called.append(stack.enter_context(_tensorboard_of(trainer)))
        if callback is not None:
            called.append(callback)

        def on_report(report: _core.Report) -> bool:
            # all of them see the report, even if one wants to stop
            answers = [one(report) for one in called]
            return not any(answer is False for answer in answers)

        yield on_report


def _tensorboard_of(trainer: _core.Trainer) -> Any:
    from canter.tensorboard import TensorBoard

    if not trainer.directory:
        raise _core.InvalidArgument("tensorboard=True needs a directory")
    return TensorBoard(Path(trainer.directory, "tensorboard"), trainer.env_steps)


def _megabytes(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def resident_bytes() -> int:
    """Memory of this process that is in RAM; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _say_start(trainer: _core.Trainer, env: str, resumed: bool) -> None:
    threads = trainer.pool.num_threads
    print(
        f"{env}: {trainer.pool.num_envs} environments, {threads} thread{'s'[: threads != 1]}, "
        f"{_megabytes(resident_bytes())} of memory, checkpoints of "
        f"{_megabytes(trainer.state_bytes)} in {trainer.directory or 'no directory'}",
        flush=True,
    )
    if resumed and trainer.env_steps < trainer.total_steps:
        print(f"resumed at {trainer.env_steps:,} of {trainer.total_steps:,} steps", flush=True)
    elif resumed:
        print(f"done already: {trainer.env_steps:,} of {trainer.total_steps:,} steps", flush=True)


def _say_interrupted(trainer: _core.Trainer) -> None:
    print(
        f"interrupted: saved at {trainer.env_steps:,} steps in {trainer.directory}; "
        "the same command goes on from there",
        flush=True,
    )


def _draw(run: Run, directory: Path, shown: bool, advanced: bool) -> None:
    notes = [draw_curve(run, directory / "curve.png")]
    films = [directory / name for name in ("video.mp4", "strip.png")]
    # a film of an older policy goes first, so that what is there is of this one, even after a kill
    for path in films if advanced else ():
        path.unlink(missing_ok=True)
    if not any(path.is_file() for path in films):
        notes.append(film(run, directory)[1])
    for note in filter(None, notes if shown else ()):
        print(note, flush=True)


def _say_end(run: Run) -> None:
    steps, returns = run.curve()
    reached = f"return {returns[-1]:.1f} over the last 100 episodes" if len(steps) else "no episode"
    where = f" in {run.directory}" if run.directory else ""
    files = ", ".join(
        name
        for name in ("policy.safetensors", "curve.png", "video.mp4", "strip.png")
        if run.directory and (run.directory / name).is_file()
    )
    text = f"{run.env_steps:,} steps: {reached}; run{where}{f' ({files})' if files else ''}"
    if run.directory and not run.done:
        text += f"; the same command goes on to {run.total_steps:,}"
    print(text, flush=True)
