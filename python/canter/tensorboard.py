"""A sink for TensorBoard: event files by tensorboard's own writer, without torch."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from canter import _core

# metrics.jsonl key -> group of charts
_GROUPS = {
    "rollout": ("episode_return_mean", "episode_return_std", "episode_length_mean", "episodes"),
    "loss": ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"),
    "update": ("explained_variance", "gradient_norm", "learning_rate", "std", "skipped_updates"),
    "time": ("steps_per_second", "time_physics", "time_inference", "time_update", "time_other"),
}


class TensorBoard:
    """Writes the scalars of every report, over environment steps.

    Args:
        directory: Where the event file goes.
        env_steps: Steps of the run so far: points after it, left by a run that was killed, are
            superseded.

    Raises:
        ModuleNotFoundError: Without the `tensorboard` package.

    Examples:
        >>> import canter, tempfile
        >>> pool = canter.make_pool("CartPole-v1", num_envs=4)
        >>> trainer = canter.Trainer(pool, canter.MlpPolicy(pool.spec), total_steps=128,
        ...                          ppo=canter.PpoOptions(horizon=16, num_minibatches=4))
        >>> with canter.TensorBoard(tempfile.mkdtemp()) as sink:
        ...     done = trainer.train(sink)
    """

    def __init__(self, directory: str | os.PathLike[str], env_steps: int = 0) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._writer = EventFileWriter(os.fspath(directory))
        if env_steps:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._add(step=env_steps + 1, session_log=start)

    def _add(self, **fields: Any) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), **fields))

    def __call__(self, report: _core.Report) -> None:
        """Writes one report; fits `Trainer.train(callback=...)`."""
        values = report.as_dict()
        scalars = [
            self._summary.Value(tag=f"{group}/{key}", simple_value=values[key])
            for group, keys in _GROUPS.items()
            for key in keys
            if math.isfinite(values[key])
        ]
        self._add(step=report.env_steps, summary=self._summary(value=scalars))

    def flush(self) -> None:
        """Writes what is still in memory."""
        self._writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
