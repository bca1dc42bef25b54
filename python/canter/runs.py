"""A run directory, as Python sees it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from canter import _core
from canter.evaluation import evaluate


class Run:
    """A training run: its directory, its policy and its curves.

    Attributes:
        options: Everything that defines the run.
        directory: The run directory, or None when nothing is written.

    Examples:
        >>> import canter
        >>> run = canter.train("CartPole-v1", total_steps=512, num_envs=8, horizon=32,
        ...                    directory="", progress=False)
        >>> run.env_steps
        512
        >>> run.policy.act([0.0, 0.0, 0.0, 0.0], deterministic=True) in (0, 1)
        True
    """

    def __init__(
        self,
        options: _core.RunOptions,
        directory: Path | None,
        *,
        policy: _core.Policy | None = None,
        reports: list[dict[str, Any]] | None = None,
    ) -> None:
        self.options = options
        self.directory = directory
        self._policy = policy
        self._reports = reports

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Run:
        """Opens an existing run directory.

        Raises:
            InvalidArgument: If there is no run in it.
        """
        path = Path(directory)
        if not (path / "config.toml").is_file():
            raise _core.InvalidArgument(f"{path} is no run directory: it has no config.toml")
        return cls(_core.RunOptions.load(str(path / "config.toml")), path)

    @property
    def policy(self) -> _core.Policy:
        """The policy as the run left it."""
        if self._policy is None:
            if self.directory is None:
                raise _core.Error("this run has neither a policy nor a directory")
            self._policy = _core.Policy.load(str(self.directory / "policy.safetensors"))
        return self._policy

    @property
    def reports(self) -> list[dict[str, Any]]:
        """One dictionary per iteration: the lines of metrics.jsonl."""
        if self._reports is not None:
            return self._reports
        file = self.directory / "metrics.jsonl" if self.directory else None
        if file is None or not file.is_file():
            return []
        reports = []
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            # a line that a kill cut short, or a bad disk changed, is no report
            with contextlib.suppress(json.JSONDecodeError):
                report = json.loads(line)
                if isinstance(report, dict) and "env_steps" in report:
                    reports.append(report)
        return reports

    @property
    def metrics(self) -> dict[str, npt.NDArray[np.float64]]:
        """Every key of the reports as float64[iterations]; NaN where there was no number."""
        reports = self.reports
        return {
            key: np.array([np.nan if r.get(key) is None else r[key] for r in reports], np.float64)
            for key in (reports[0] if reports else ())
        }

    def curve(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The learning curve.

        Returns:
            Environment steps and the mean return of the last 100 episodes at each, from the first
            iteration that had finished an episode.
        """
        metrics = self.metrics
        if not metrics:
            return np.empty(0), np.empty(0)
        known = np.isfinite(metrics["episode_return_mean"])
        return metrics["env_steps"][known], metrics["episode_return_mean"][known]

    @property
    def env_steps(self) -> int:
        """Environment steps of the run so far."""
        reports = self.reports
        return int(reports[-1]["env_steps"]) if reports else 0

    @property
    def total_steps(self) -> int:
        """Environment steps that the run is meant to have; 0: no end."""
        return int(self.options.to_dict()["total_steps"])

    @property
    def done(self) -> bool:
        """True when the run has all its steps."""
        return 0 < self.total_steps <= self.env_steps

    def evaluate(self, **options: Any) -> _core.Evaluation:
        """`canter.evaluate` of this run's policy on its own task."""
        saved = self.options.to_dict()
        if saved["model_path"] and Path(saved["model_path"]).is_file():
            options.setdefault("model_path", saved["model_path"])
        return evaluate(self.policy, self.options.env, **options)

    def __repr__(self) -> str:
        where = f"{str(self.directory)!r}, " if self.directory else ""
        _, returns = self.curve()
        reached = f", return {returns[-1]:.1f}" if len(returns) else ""
        return f"Run({where}{self.options.env!r}, {self.env_steps:,} steps{reached})"
