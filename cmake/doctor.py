#!/usr/bin/env python3
"""What this machine has for canter, and what it lacks: one line each; a red line ends with its fix.

Run it as `./dev doctor`. Nothing is changed. Exit code 1 if something needed is missing.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLOURS = {"ok": "32", "note": "33", "bad": "31"}


@dataclass
class Finding:
    """One line of the report."""

    level: str  # ok, note (works without it), bad
    name: str
    text: str
    fix: str = ""

    def __str__(self) -> str:
        mark = f"{self.level:4}"
        if sys.stdout.isatty():
            mark = f"\033[{COLOURS[self.level]}m{mark}\033[0m"
        return f"{mark}  {self.name:16} {self.text}" + (f"   fix: {self.fix}" if self.fix else "")


def output(*command: str, **environment: str) -> str | None:
    """What a command prints, or None when it fails."""
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=os.environ | environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def check_tools() -> list[Finding]:
    """Interpreter, compiler and build tools."""
    version = sys.version.split()[0]
    fine = sys.version_info >= (3, 11)
    fix = "" if fine else "apt-get install -y python3"
    result = [Finding("ok" if fine else "bad", "python", f"{version} ({sys.executable})", fix)]
    header = pathlib.Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        result.append(Finding("bad", "Python.h", "missing", "apt-get install -y python3-dev"))
    tools = {
        "c++": ("bad", "apt-get install -y g++"),
        "cmake": ("bad", "./dev train makes .venv with it"),
        "ninja": ("bad", "./dev train makes .venv with it"),
        "ccache": ("note", "apt-get install -y ccache (faster builds)"),
        "clang-format": ("note", "apt-get install -y clang-format (format check)"),
    }
    for tool, (level, fix) in tools.items():
        path = shutil.which(tool)
        first = (output(tool, "--version") or "").splitlines()[:1] if path else []
        if first:
            result.append(Finding("ok", tool, first[0]))
        else:
            result.append(Finding(level, tool, "not found", fix))
    return result


def check_packages() -> list[Finding]:
    """Python packages of the environment in use."""
    # before the first set-up nothing is wrong: it installs all of them, into .venv
    fresh = not (ROOT / ".venv").exists()
    result = []
    if fresh:
        result.append(Finding("note", ".venv", "not made yet", "./dev train (it sets up all)"))
    for name, level, wanted in (
        ("mujoco", "bad", "mujoco==4.0.0"),
        ("numpy", "bad", "numpy"),
        ("pybind11", "bad", "'pybind11>=3'"),
        ("tbb", "note", "tbb"),
        ("torch", "note", "torch==2.13.0"),
        ("gymnasium", "note", "'gymnasium[mujoco]==1.4.*'"),
        ("matplotlib", "note", "matplotlib"),
        ("imageio-ffmpeg", "note", "imageio-ffmpeg"),
    ):
        try:
            version = importlib.metadata.version(name)
            result.append(Finding("ok", name, version))
        except importlib.metadata.PackageNotFoundError:
            level = "note" if fresh else level
            fix = "./dev train" if fresh else f"{sys.executable} -m pip install {wanted}"
            result.append(Finding(level, name, "not installed", fix))
    return result


def check_providers() -> list[Finding]:
    """Who provides each dependency, as the last configuration found it."""
    for preset in ("dev", "release"):
        cache = ROOT / "build" / preset / "CMakeCache.txt"
        if not cache.is_file():
            continue
        for line in cache.read_text().splitlines():
            if line.startswith("CANTER_PROVIDERS:"):
                pairs = [entry.partition("=") for entry in line.partition("=")[2].split(";")]
                return [Finding("ok", f"build: {name}", where) for name, _, where in pairs]
    return [Finding("note", "build", "not configured yet", "./dev train or ./dev test")]


def check_machine() -> list[Finding]:
    """CPU, cores, memory and disk."""
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    lines = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    values = {name.strip(): value.strip() for name, value in lines.items()}
    flags = set(values.get("flags", "").split())
    model = values.get("model name", platform.machine())
    result = []
    needed = {"avx2", "fma", "bmi2"}
    if platform.machine() == "x86_64" and not needed <= flags:
        lacks = ", ".join(sorted(needed - flags))
        fix = "build with -DCANTER_MARCH=x86-64-v2"
        result.append(Finding("bad", "cpu", f"{model}, lacks {lacks} (x86-64-v3)", fix))
    else:
        has = " ".join(sorted(flags & {"avx2", "fma", "avx512f"}))
        result.append(Finding("ok", "cpu", f"{model} ({has})"))
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    limit = f", limited to {quota:.1f} by the control group" if quota < cores else ""
    result.append(Finding("ok", "usable cores", f"{cores} of {os.cpu_count()}{limit}"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    level, fix = ("ok", "") if memory >= 4 else ("note", "build with CMAKE_BUILD_PARALLEL_LEVEL=1")
    result.append(Finding(level, "memory", f"{memory:.1f} GiB", fix))
    free = shutil.disk_usage(ROOT).free / 2**30
    level, fix = ("ok", "") if free >= 5 else ("note", "free some space: torch alone takes 1 GiB")
    result.append(Finding(level, "free disk", f"{free:.0f} GiB", fix))
    return result


def cpu_quota() -> float:
    """Cores that the control group allows (version 2), or infinity."""
    try:
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return float(quota) / float(period)
    except (OSError, ValueError):
        return float("inf")


def check_pictures() -> list[Finding]:
    """The first OpenGL backend of MuJoCo that makes a context."""
    fix = "apt-get install -y libegl1 libosmesa6 (video of the trained robot)"
    if importlib.util.find_spec("mujoco") is None:
        return []
    for backend in ("egl", "osmesa", "glfw"):
        code = "import mujoco; mujoco.GLContext(64, 64).make_current(); print('made')"
        if output(sys.executable, "-c", code, MUJOCO_GL=backend) == "made":
            return [Finding("ok", "OpenGL", f"MUJOCO_GL={backend} works")]
    return [Finding("note", "OpenGL", "no backend of MuJoCo works here", fix)]


def main() -> int:
    """Prints the report; returns 1 if something needed is missing."""
    findings = check_tools() + check_packages() + check_providers()
    findings += check_machine() + check_pictures()
    for finding in findings:
        print(finding)
    bad = sum(finding.level == "bad" for finding in findings)
    print(f"{bad} fault{'s'[: bad > 1]}" if bad else "nothing needed is missing")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
