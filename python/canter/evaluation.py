"""Evaluation of policies."""

from __future__ import annotations

import os
from typing import Any

from canter import _core
from canter.pools import make_pool


def evaluate(
    policy: _core.Policy | str | os.PathLike[str],
    env: str | _core.EnvPool,
    *,
    episodes: int = 100,
    deterministic: bool = True,
    seed: int = 0,
    **options: Any,
) -> _core.Evaluation:
    """Runs full episodes of a policy with its normalisers frozen.

    Every environment gets its number of episodes in advance, so that short ones are not favoured.

    Args:
        policy: The policy, or the path of its file.
        env: Name of a task, or a pool (which is reset).
        episodes: Episodes in all.
        deterministic: The mode of the action distribution instead of samples.
        seed: Of the environments and of sampled actions.
        **options: Of the pool, when `env` is a name. Default: num_envs = min(episodes, 64).

    Returns:
        Returns and lengths of the episodes, mean, standard deviation and a 95 % confidence
        interval of the mean.

    Raises:
        InvalidArgument: If the policy does not fit the environment, or episodes < 1.

    Examples:
        >>> import canter
        >>> pool = canter.make_pool("CartPole-v1", num_envs=4)
        >>> policy = canter.MlpPolicy(pool.spec, seed=1)
        >>> canter.evaluate(policy, pool, episodes=8).returns.shape
        (8,)
    """
    if not isinstance(policy, _core.Policy):
        policy = _core.Policy.load(os.fspath(policy))
    chosen = _core.EvaluateOptions(episodes=episodes, deterministic=deterministic, seed=seed)
    if isinstance(env, _core.EnvPool):
        if options:
            raise _core.InvalidArgument(
                f"options of a pool ({', '.join(options)}) need the name of a task, got a pool"
            )
        return _core.evaluate(env, policy, chosen)
    options.setdefault("num_envs", max(1, min(chosen.episodes, 64)))
    with make_pool(env, **options) as pool:
        return _core.evaluate(pool, policy, chosen)
