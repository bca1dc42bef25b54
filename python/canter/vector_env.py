"""A pool as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from canter import _core
from canter.pools import make_pool

_Array = npt.NDArray[Any]


def observation_space(spec: _core.Spec) -> gymnasium.spaces.Box:
    """Space of one observation: float32[observation_size]."""
    shape = (spec.observation_size,)
    low = np.asarray(spec.observation_lows or -np.inf, dtype=np.float32)
    high = np.asarray(spec.observation_highs or np.inf, dtype=np.float32)
    return gymnasium.spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape))


def action_space(spec: _core.Spec) -> gymnasium.spaces.Box | gymnasium.spaces.Discrete:
    """Space of one action: float32[action_size], or one of 0 .. count - 1."""
    if isinstance(spec.action, _core.Discrete):
        return gymnasium.spaces.Discrete(spec.action.count)
    return gymnasium.spaces.Box(spec.action.low, spec.action.high)


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A pool in Gymnasium's vector interface; episodes that end are reset in the same step.

    Where an episode ended, `infos["final_obs"]` (object array, mask `_final_obs`) holds its last
    observation and `infos["final_info"]` what the pool knows of it (mask `_final_info`). All arrays
    are new in every step. Gymnasium's wrappers that need another autoreset mode, such as its vector
    NormalizeObservation, refuse this one; `canter.train` has normalisers of its own.

    Args:
        env: Name of a registered task, or a pool, which `close()` then leaves open.
        num_envs: Environments; for a name only.
        episode_statistics: Adds `final_info["episode"]`: return "r" and length "l" [steps] of the
            episodes that ended. Leave it off under Gymnasium's RecordEpisodeStatistics.
        copy: True. With False, step returns the pool's own buffers, valid until the next step.
        **options: Options of the pool, for a name only.

    Examples:
        >>> import canter
        >>> envs = canter.VectorEnv("CartPole-v1", num_envs=3)
        >>> observations, infos = envs.reset(seed=7)
        >>> observations.shape
        (3, 4)
        >>> observations, rewards, terminations, truncations, infos = envs.step([0, 1, 0])
        >>> rewards
        array([1., 1., 1.])
        >>> envs.close()
    """

    def __init__(
        self,
        env: str | _core.EnvPool,
        num_envs: int = 1,
        *,
        episode_statistics: bool = False,
        copy: bool = True,
        **options: Any,
    ) -> None:
        self._owns_pool = isinstance(env, str)
        if isinstance(env, _core.EnvPool):
            if options or num_envs not in (1, env.num_envs):
                raise _core.InvalidArgument("a pool has its options already: pass the pool alone")
            self.pool = env
        else:
            self.pool = make_pool(env, num_envs=num_envs, **options)
        spec = self.pool.spec
        self.num_envs = self.pool.num_envs
        self.single_observation_space = observation_space(spec)
        self.single_action_space = action_space(spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.render_mode = None
        self._episode_statistics = episode_statistics
        self._copy = copy

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[_Array, dict[str, Any]]:
        """Starts new episodes.

        Args:
            seed: An int is the pool's seed: environment i draws from it and its own index, so no
                two are alike. A list gives each environment a seed of its own.
            options: `{"reset_mask": bool[num_envs]}` starts new episodes in these environments
                only; at least one must be True.

        Returns:
            Observations, float32[num_envs, observation_size], and infos, {}.

        Raises:
            InvalidArgument: For a mask together with a seed, or one of another shape or dtype, or
                a list of another length.
        """
        mask = (options or {}).get("reset_mask")
        if mask is not None and not np.any(mask):
            raise _core.InvalidArgument("reset_mask must have at least one True")
        self._check_seed(seed)
        out = None if self._copy else self.pool.buffers
        return self.pool.reset(seed=seed, mask=mask, out=out), {}

    def _check_seed(self, seed: int | list[int | None] | None) -> None:
        if isinstance(seed, (int, np.integer)) or seed is None:
            return
        if len(seed) != self.num_envs:
            raise _core.InvalidArgument(
                f"seed must be an int or a list of {self.num_envs} ints, got {len(seed)} of them"
            )

    def step(self, actions: Any) -> tuple[_Array, _Array, _Array, _Array, dict[str, Any]]:
        """Steps every environment once.

        Args:
            actions: An element of `action_space`.

        Returns:
            Observations (of the new episode where one ended), rewards float64[num_envs],
            terminations and truncations bool[num_envs], infos.
        """
        out = None if self._copy else self.pool.buffers
        step = self.pool.step(actions, out=out)
        return (
            step.observations,
            step.rewards.astype(np.float64),
            step.terminated,
            step.truncated,
            self._infos(step),
        )

    def _infos(self, step: _core.StepResult) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        # a row whose episode ended has its measures in final_info, as in Gymnasium
        ended = step.terminated | step.truncated
        for column, name in enumerate(self.pool.spec.metrics):
            infos[name] = np.where(ended, 0.0, step.metrics[:, column]).astype(np.float64)
            infos[f"_{name}"] = ~ended
        if not ended.any():
            return infos
        final_obs = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            final_obs[i] = step.final_observations[i].copy()
        infos["final_obs"], infos["_final_obs"] = final_obs, ended.copy()
        infos["final_info"], infos["_final_info"] = self._final_info(step, ended), ended.copy()
        return infos

    def _final_info(self, step: _core.StepResult, ended: _Array) -> dict[str, Any]:
        # the measures of a step belong to the episode it ended
        final: dict[str, Any] = {"diverged": step.diverged & ended, "_diverged": ended.copy()}
        for column, name in enumerate(self.pool.spec.metrics):
            final[name] = np.where(ended, step.metrics[:, column], 0.0).astype(np.float64)
            final[f"_{name}"] = ended.copy()
        if self._episode_statistics:
            final["episode"] = {
                "r": np.where(ended, step.episode_returns, 0.0).astype(np.float64),
                "_r": ended.copy(),
                "l": np.where(ended, step.episode_lengths, 0).astype(np.int64),
                "_l": ended.copy(),
            }
            final["_episode"] = ended.copy()
        return final

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the pool, if this environment made it."""
        if self._owns_pool:
            self.pool.close()

    def __repr__(self) -> str:
        return f"VectorEnv({self.pool!r})"
