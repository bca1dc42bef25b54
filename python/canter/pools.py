"""Pools by name."""

from __future__ import annotations

from typing import Any

from canter import _core
from canter.assets import find_model_path


def make_pool(name: str, options: _core.PoolOptions | None = None, **values: Any) -> _core.EnvPool:
    """Makes a pool of a registered task.

    Args:
        name: Name of the task; `canter.registered_tasks()` lists them.
        options: Options to start from, for example those of another pool. Default: the defaults.
        **values: Single options of PoolOptions: num_envs, seed, num_threads, ...

    Returns:
        The pool; nothing is simulated before `reset()`.

    Raises:
        InvalidArgument: For an unknown name or option (with the nearest match), a value out of
            range, or a model file that is nowhere.
        ModelError: When MuJoCo refuses the model file.

    Examples:
        >>> import canter
        >>> canter.make_pool("CartPole-v1", num_envs=2, seed=3, num_threads=1)
        EnvPool('CartPole-v1', num_envs=2, seed=3, num_threads=1)
        >>> canter.make_pool("CartPool-v1")
        Traceback (most recent call last):
        ...
        canter._core.InvalidArgument: unknown task "CartPool-v1"; did you mean "CartPole-v1"?
    """
    merged = {**(options.to_dict() if options else {}), **values}
    chosen = _core.PoolOptions(**merged)
    if not chosen.model_path:
        chosen.model_path = find_model_path(name)
    return _core.make_pool(name, chosen)
