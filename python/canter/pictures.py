"""Pictures of a run: its learning curve, and a short film of the trained policy."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from canter import _core
from canter.assets import find_model_path
from canter.runs import Run

# tried in this order; the first that draws is used
GL_BACKENDS = ("egl", "osmesa")


def draw_curve(run: Run, path: Path) -> str:
    """Draws return over environment steps.

    Returns:
        "" if `path` was written, else why not.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return "no curve.png: pip install matplotlib"
    steps, returns = run.curve()
    if not len(steps):
        return "no curve.png: no episode has ended yet"
    # a figure of its own: the caller's pyplot state and backend stay as they are
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    spread = run.metrics["episode_return_std"][-len(steps) :]
    axes.fill_between(steps, returns - spread, returns + spread, alpha=0.2, linewidth=0)
    axes.plot(steps, returns)
    axes.set(xlabel="environment steps", ylabel="return, last 100 episodes", title=run.options.env)
    axes.grid(alpha=0.3)
    FigureCanvasAgg(figure).print_png(path)
    return ""


def film(run: Run, directory: Path, num_frames: int = 100) -> tuple[Path | None, str]:
    """Films one episode of the run's policy in a process of its own.

    OpenGL can end a process, and its backend is chosen at import: so each backend is tried in a
    fresh one.

    Args:
        run: A run with a policy file.
        directory: Where video.mp4 goes, or strip.png without imageio-ffmpeg.
        num_frames: Length of the film.

    Returns:
        The file, or None and why there is none.
    """
    env = run.options.env
    if not _core.model_file(env):
        return None, f"no video: {env} has no MuJoCo model"
    if run.directory is None:
        return None, "no video: the run has no directory"
    if importlib.util.find_spec("mujoco") is None:
        return None, "no video: pip install mujoco"
    saved = str(run.options.to_dict()["model_path"])
    model = saved if Path(saved).is_file() else find_model_path(env)
    command = [sys.executable, "-m", "canter.render", str(run.directory / "policy.safetensors")]
    command += [env, model, str(directory), str(num_frames)]
    chosen = os.environ.get("MUJOCO_GL")
    reasons = []
    for backend in (chosen,) if chosen else GL_BACKENDS:
        ok, text = _try_backend(command, backend)
        if ok:
            return Path(text), ""
        reasons.append(f"{backend}: {text}")
    return None, f"no video: no OpenGL backend works ({'; '.join(reasons)})"


def _try_backend(command: list[str], backend: str) -> tuple[bool, str]:
    package_parent = str(Path(__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package_parent, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "MUJOCO_GL": backend, "PYTHONPATH": path}
    try:
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return False, "took more than 120 s"
    lines = (result.stdout if result.returncode == 0 else result.stderr).strip().splitlines()
    last = lines[-1] if lines else f"ended with code {result.returncode}"
    return result.returncode == 0, last


def probe_gl(backend: str) -> tuple[bool, str]:
    """Draws one picture with an OpenGL backend in a process of its own.

    Returns:
        Whether it worked, and the renderer's name or the reason.
    """
    return _try_backend([sys.executable, "-m", "canter.render"], backend)
