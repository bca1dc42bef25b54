"""The `canter` command: train, eval, info, doctor."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from canter import _core
from canter.evaluation import evaluate
from canter.runs import Run
from canter.training import train

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_PREEMPTED, EXIT_INTERRUPTED = 0, 1, 2, 75, 130

_TRAIN_NOTE = """Every option of a run is an argument: --num-envs 128 --learning-rate 1e-3
--hidden 256,256 --preset cleanrl ... An unknown one is refused with the nearest match."""


class _Preempted(KeyboardInterrupt):
    """SIGTERM: what starts and ends jobs wants the machine back."""


def _preempt(signum: int, frame: FrameType | None) -> NoReturn:
    raise _Preempted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="canter", description="Trains robot policies with PPO on many MuJoCo simulations."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="{train,eval,info,doctor}")

    command = commands.add_parser("train", help="train a policy, or go on", epilog=_TRAIN_NOTE)
    command.add_argument("env", help="name of a task, for example HalfCheetah-v5")
    names = ", ".join(_core.preset_names())
    command.add_argument("--preset", help=f"one of {names}; default fast, or the resumed run's")
    command.add_argument("--max-seconds", type=float, default=0.0, help="limit of this call [s]")
    command.add_argument("--directory", help="run directory; default runs/<env>-seed<seed>")
    command.add_argument("--tensorboard", action="store_true", help="also write event files")
    command.add_argument("--no-pictures", action="store_true", help="neither curve nor video")
    command.add_argument("--quiet", action="store_true", help="print nothing")

    command = commands.add_parser("eval", help="evaluate a policy file or a run")
    command.add_argument("path", help="policy file or run directory")
    command.add_argument("env", nargs="?", help="name of a task; default: that of the run")
    command.add_argument("--episodes", type=int, default=100)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--stochastic", action="store_true", help="sample actions")

    command = commands.add_parser("info", help="what a run directory or policy file holds")
    command.add_argument("path", help="run directory or policy file")

    commands.add_parser("doctor", help="what this machine has and lacks")
    return parser


def _options(words: list[str]) -> dict[str, Any]:
    """`--num-envs 8 --hidden=64,64` as {"num_envs": 8, "hidden": [64, 64]}."""
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            raise _core.InvalidArgument(
                f"expected an option that begins with --, got {word!r}; the task comes first"
            )
        name, equals, text = word[2:].partition("=")
        value = text if equals else next(rest, None)
        if value is None:
            raise _core.InvalidArgument(f"--{name} needs a value")
        options[name.replace("-", "_")] = _core.parse_option_value(value)
    # one width is a list of one
    if isinstance(options.get("hidden"), int):
        options["hidden"] = [options["hidden"]]
    return options


def _train(arguments: argparse.Namespace, rest: list[str]) -> int:
    before = signal.signal(signal.SIGTERM, _preempt)
    try:
        train(
            arguments.env,
            preset=arguments.preset,
            directory=arguments.directory,
            progress=not arguments.quiet,
            pictures=not arguments.no_pictures,
            tensorboard=arguments.tensorboard,
            max_seconds=arguments.max_seconds,
            **_options(rest),
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    return EXIT_OK


def _eval(arguments: argparse.Namespace, rest: list[str]) -> int:
    options = {
        "episodes": arguments.episodes,
        "seed": arguments.seed,
        "deterministic": not arguments.stochastic,
        **_options(rest),
    }
    if Path(arguments.path).is_dir():
        run = Run.load(arguments.path)
        if arguments.env in (None, run.options.env):
            print(run.evaluate(**options))
        else:
            print(evaluate(run.policy, arguments.env, **options))
    elif arguments.env is None and not Path(arguments.path).exists():
        raise _core.InvalidArgument(f"{arguments.path} is neither a run directory nor a file")
    elif arguments.env is None:
        raise _core.InvalidArgument("a policy file needs the name of a task: canter eval FILE ENV")
    else:
        print(evaluate(arguments.path, arguments.env, **options))
    return EXIT_OK


def _info(arguments: argparse.Namespace, rest: list[str]) -> int:
    if rest:
        _refuse(rest)
    if Path(arguments.path).is_dir():
        run = Run.load(arguments.path)
        print(run)
        print(
            f"{'done' if run.done else 'not done'}: {run.env_steps:,} of {run.total_steps:,} steps"
        )
        for name, value in run.options.to_dict().items():
            print(f"  {name} = {value!r}")
        return EXIT_OK
    policy = _core.Policy.load(arguments.path)
    print(policy)
    print(policy.spec)
    for name, array in policy.parameters.items():
        print(f"  {name}: {list(array.shape)}")
    return EXIT_OK


def _refuse(rest: list[str]) -> None:
    raise _core.InvalidArgument(f"unknown argument {rest[0]!r}")


def _doctor(arguments: argparse.Namespace, rest: list[str]) -> int:
    if rest:
        _refuse(rest)
    from canter import doctor

    return doctor.main()


def main(words: list[str] | None = None) -> int:
    """Runs the command.

    Args:
        words: Command line without the program. Default: that of this process.

    Returns:
        The exit code: 0 done, 1 an error (one line on stderr), 2 wrong usage, 75 ended by SIGTERM
        or 130 by Ctrl-C (a training run is saved and goes on with the same command).
    """
    parser = _parser()
    arguments, rest = parser.parse_known_args(words)
    if arguments.version:
        from canter import __version__

        print(f"canter {__version__}")
        return EXIT_OK
    if arguments.command is None:
        parser.print_help()
        return EXIT_USAGE
    actions = {"train": _train, "eval": _eval, "info": _info, "doctor": _doctor}
    try:
        return actions[arguments.command](arguments, rest)
    except _core.InvalidArgument as error:
        print(f"canter: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # what read our output has left (`| head`); the interpreter must not flush into it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except (_core.Error, OSError, ModuleNotFoundError) as error:
        print(f"canter: {error}", file=sys.stderr)
        return EXIT_ERROR
    except _Preempted:
        return EXIT_PREEMPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
