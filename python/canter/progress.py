"""Progress of a run for people: a bar in a terminal or notebook, plain lines elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from typing import Any, Protocol

from canter import _core


class Progress(Protocol):
    """What shows the reports of a run."""

    def update(self, report: _core.Report) -> None:
        """Shows a report."""

    def close(self) -> None:
        """Leaves the last report on the screen."""


def in_notebook() -> bool:
    """True in a Jupyter kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Lines:
    """One line at most every `interval` seconds, and one at the end."""

    def __init__(self, total_steps: int, env_steps: int, interval: float = 5.0) -> None:
        self._total = total_steps
        self._first = env_steps
        self._interval = interval
        self._start = self._printed = time.monotonic()
        self._latest: _core.Report | None = None

    def update(self, report: _core.Report) -> None:
        """Shows a report."""
        self._latest = report
        if time.monotonic() - self._printed >= self._interval:
            self._print(report)

    def close(self) -> None:
        """Prints the last report, if it is not there yet."""
        if self._latest is not None:
            self._print(self._latest)

    def _print(self, report: _core.Report) -> None:
        now = time.monotonic()
        rate = (report.env_steps - self._first) / max(now - self._start, 1e-9)
        text = f"{report.env_steps:,} steps"
        if self._total:
            text += f" of {self._total:,} ({100 * report.env_steps / self._total:.0f} %)"
        text += f", {rate:,.0f} steps/s, return {_number(report.episode_return_mean)}"
        if self._total and rate > 0:
            text += f", {_duration(max(self._total - report.env_steps, 0) / rate)} left"
        print(text, flush=True)
        self._printed = now
        self._latest = None


def _terminal_columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


class Bar:
    """A live bar by tqdm: steps, steps/s, return, time left."""

    def __init__(self, total_steps: int, env_steps: int) -> None:
        if in_notebook():
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
        # a terminal without a size (some pseudo-terminals) would get no bar at all
        sized = _terminal_columns() > 0
        columns, rows = shutil.get_terminal_size()
        self._bar: Any = tqdm(
            total=total_steps or None,
            initial=env_steps,
            unit="step",
            unit_scale=True,
            ncols=None if sized else columns,
            nrows=None if sized else rows,
            dynamic_ncols=sized,
            file=sys.stdout,
            smoothing=0.1,
        )

    def update(self, report: _core.Report) -> None:
        """Shows a report."""
        self._bar.set_postfix_str(f"return {_number(report.episode_return_mean)}", refresh=False)
        self._bar.update(report.env_steps - self._bar.n)

    def close(self) -> None:
        """Leaves the bar on the screen."""
        self._bar.close()


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"


def make_progress(total_steps: int, env_steps: int) -> Progress:
    """A bar where it can live, else plain lines."""
    try:
        if in_notebook() or sys.stdout.isatty():
            return Bar(total_steps, env_steps)
    except ImportError:
        pass
    return Lines(total_steps, env_steps)
