"""Films a policy; run as a program of its own, because OpenGL backends are chosen at start.

`python -m canter.render POLICY ENV MODEL DIRECTORY NUM_FRAMES` prints the file it wrote; without
arguments it draws one picture and prints who drew it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEIGHT = 480, 360


def _frames(policy_path: str, env: str, model_path: str, num_frames: int) -> Iterator[Any]:
    import mujoco

    import canter

    policy = canter.Policy.load(policy_path)
    pool = canter.make_pool(env, num_envs=1, num_threads=1, seed=1, model_path=model_path)
    model = mujoco.MjModel.from_xml_path(model_path)
    data = mujoco.MjData(model)
    renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    camera = _camera(mujoco, model)
    observations = pool.reset()
    for _ in range(num_frames):
        state = pool.state(0)
        data.qpos[:], data.qvel[:] = state.qpos, state.qvel
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, camera)
        yield renderer.render()
        observations = pool.step(policy.act(observations, deterministic=True)).observations


def _camera(mujoco: Any, model: Any) -> Any:
    # the model's first camera follows its robot in every built-in task that moves; else a free one
    if model.ncam > 0:
        return 0
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    return camera


def _write(frames: Iterator[Any], directory: Path, rate: float) -> Path:
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        return _write_strip(frames, directory)
    path = directory / "video.mp4"
    writer = imageio_ffmpeg.write_frames(
        str(path), (WIDTH, HEIGHT), fps=rate, macro_block_size=4, ffmpeg_log_level="error"
    )
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame))
    writer.close()
    return path


def _write_strip(frames: Iterator[Any], directory: Path) -> Path:
    from matplotlib.image import imsave

    path = directory / "strip.png"
    shots = list(frames)
    imsave(path, np.concatenate(shots[:: max(1, len(shots) // 8)][:8], axis=1))
    return path


def _probe() -> str:
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = mujoco.Renderer(model, 32, 32)
    renderer.update_scene(data)
    renderer.render()
    return "draws"


def main(arguments: list[str]) -> int:
    """Films or probes; one line on stdout, or one on stderr and exit code 1."""
    try:
        if not arguments:
            print(_probe())
            return 0
        policy, env, model_path, directory, num_frames = arguments
        import canter

        step_seconds = canter.Policy.load(policy).spec.step_seconds
        rate = 1 / step_seconds if step_seconds > 0 else 30.0
        print(_write(_frames(policy, env, model_path, int(num_frames)), Path(directory), rate))
    # whatever OpenGL, ffmpeg or a file says: the caller shows one line
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
