"""What canter has to work with on this machine; every fault ends with its fix."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from canter import _core
from canter.assets import find_model_path
from canter.pictures import GL_BACKENDS, probe_gl

# package -> what it is for, and whether canter works without it
_PACKAGES = {
    "numpy": ("arrays", True),
    "mujoco": ("physics", True),
    "tbb": ("threads, unless the system has oneTBB", False),
    "gymnasium": ("models of the built-in tasks, VectorEnv", False),
    "tqdm": ("progress bars", False),
    "matplotlib": ("curve.png", False),
    "imageio-ffmpeg": ("video.mp4", False),
    "tensorboard": ("event files", False),
    "torch": ("TorchPolicy", False),
}


@dataclass
class Finding:
    """One line: what was looked at, what was found, and the fix if it is a fault."""

    name: str
    text: str
    fix: str = ""
    needed: bool = False

    def __str__(self) -> str:
        mark = "ok  " if not self.fix else "bad " if self.needed else "note"
        if sys.stdout.isatty():
            mark = f"\033[{ {'ok  ': 32, 'bad ': 31, 'note': 33}[mark] }m{mark}\033[0m"
        return f"{mark}  {self.name:16} {self.text}" + (f"   fix: {self.fix}" if self.fix else "")


def _package_findings() -> Iterator[Finding]:
    for name, (purpose, needed) in _PACKAGES.items():
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            fix = f"{sys.executable} -m pip install {name}"
            yield Finding(name, f"not installed ({purpose})", fix, needed)


def _library_findings() -> Iterator[Finding]:
    # which copy of each library this process really has
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return
    paths = sorted({line.split()[-1] for line in maps.read_text().splitlines() if ".so" in line})
    for library in ("libcanter_core", "libmujoco", "libtbb.so"):
        copies = [path for path in paths if Path(path).name.startswith(library)]
        text = ", ".join(copies) or "linked into another library"
        fix = "two copies in one process: remove one" if len(copies) > 1 else ""
        yield Finding(library.removesuffix(".so"), text, fix, needed=True)


def _machine_findings() -> Iterator[Finding]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    values = {name.strip(): value.strip() for name, value in values.items()}
    features = set(values.get("flags", "").split()) & {"avx2", "fma", "bmi2", "avx512f"}
    model = values.get("model name", platform.machine())
    yield Finding("cpu", f"{model} ({' '.join(sorted(features)) or 'no vector extensions known'})")
    try:
        yield Finding("kernels", _core.kernel_name())
    except _core.Error as error:
        fix = "build canter from source with -DCANTER_MARCH=x86-64-v2"
        yield Finding("kernels", str(error), fix, needed=True)
    yield Finding("usable cores", f"{_core.usable_cores()} of {os.cpu_count()}")


def _model_findings() -> Iterator[Finding]:
    missing = []
    for task in _core.registered_tasks():
        file = _core.model_file(task)
        on_path = any(
            folder and Path(folder, file).is_file()
            for folder in os.environ.get("CANTER_ASSET_PATH", "").split(":")
        )
        if file and not on_path and not find_model_path(task):
            missing.append(file)
    if missing:
        fix = f"{sys.executable} -m pip install 'gymnasium[mujoco]', or set CANTER_ASSET_PATH"
        yield Finding("models", f"not found: {', '.join(missing)}", fix)
    else:
        yield Finding("models", f"all of {len(_core.registered_tasks())} tasks")


def _picture_findings() -> Iterator[Finding]:
    reasons = []
    for backend in GL_BACKENDS:
        ok, text = probe_gl(backend)
        if ok:
            yield Finding("OpenGL", f"MUJOCO_GL={backend} draws")
            return
        reasons.append(f"{backend}: {text}")
    fix = "apt-get install -y libegl1 libosmesa6 (video of the trained policy)"
    yield Finding("OpenGL", "; ".join(reasons), fix)


def examine() -> Iterator[Finding]:
    """All findings, one after the other."""
    from canter import __version__

    yield Finding("canter", f"{__version__} ({Path(__file__).parent})")
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield from _package_findings()
    yield from _library_findings()
    yield from _machine_findings()
    yield from _model_findings()
    yield from _picture_findings()


def main() -> int:
    """Prints the findings; 1 if something needed is missing."""
    faults = 0
    for finding in examine():
        print(finding, flush=True)
        faults += bool(finding.fix and finding.needed)
    print(f"{faults} fault{'s'[: faults > 1]}" if faults else "nothing needed is missing")
    return 1 if faults else 0
