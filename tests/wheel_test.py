"""Uses canter as others do, outside the repository: installed, from sources, and from a wheel.

    python tests/wheel_test.py BUILD_FOLDER

The interpreter builds the wheel, so it needs scikit-build-core, pybind11 and mujoco. A clean
environment gets the wheel and what it depends on. LD_LIBRARY_PATH and PYTHONPATH are not set.
"""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
HIDDEN = ("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CMAKE_PREFIX_PATH", "MUJOCO_ROOT")

# one process: imports in an order, runs ten steps, and counts the copies of each library
SMOKE = """
import ctypes, importlib, pathlib, sys
for name in sys.argv[1].split(","):
    if name.startswith("/"):
        ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
    elif name.startswith("+"):
        sys.path.append(name[1:])
    else:
        importlib.import_module(name)
import numpy
import canter
if "torch" not in sys.argv[1]:
    assert "torch" not in sys.modules, "import canter imported torch"
pool = canter.make_pool("CartPole-v1", num_envs=4, seed=7)
observations = pool.reset()
for _ in range(10):
    step = pool.step(numpy.zeros(4, dtype=numpy.int64))
assert step.observations.shape == observations.shape == (4, 4)
robot = canter.make_pool("InvertedPendulum-v5", num_envs=4, seed=7, model_path=sys.argv[2])
robot.reset()
for _ in range(10):
    step = robot.step(numpy.zeros((4, 1), dtype=numpy.float32))
assert numpy.isfinite(step.observations).all()
maps = pathlib.Path("/proc/self/maps").read_text().split()
for library in ("libmujoco.so", "libtbb.so", "libcanter_core.so", "libcanter_policy.so"):
    copies = {path for path in maps if pathlib.PurePath(path).name.startswith(library)}
    assert len(copies) == 1, f"{library}: {sorted(copies) or 'not loaded'}"
"""


def run(*command: object, cwd: pathlib.Path, **more: str) -> str:
    """Runs a command without the variables that would hide a fault, and returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN} | more
    words = [str(word) for word in command]
    result = subprocess.run(
        words, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if result.returncode != 0:
        print(result.stdout)
        raise SystemExit(f"failed ({result.returncode}): {' '.join(words)}")
    return result.stdout


def use_from_outside(name: str, prefix: pathlib.Path, work: pathlib.Path) -> None:
    """Configures, builds and runs tests/external against a prefix, with and without MuJoCo."""
    source = work / f"{name}-source"
    shutil.copytree(ROOT / "tests" / "external", source)
    for folder, simulates in (("all", "ON"), ("policy", "OFF")):
        build = work / f"{name}-{folder}"
        options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DOUTSIDE_SIMULATES={simulates}"]
        run("cmake", "-S", source, "-B", build, "-G", "Ninja", *options, cwd=work)
        run("cmake", "--build", build, cwd=work)
        run(build / "outside_act", cwd=work)
        linked = run("ldd", build / "outside_act", cwd=work)
        if "mujoco" in linked or "tbb" in linked or "not found" in linked:
            raise SystemExit(f"canter::policy must stand on the standard library alone:\n{linked}")
    train = work / f"{name}-all" / "outside_train"
    print(name, run(train, source / "slider.xml", work / f"{name}-run", cwd=work).strip())


def use_sources(work: pathlib.Path) -> None:
    """Builds tests/external with canter as a subdirectory, as static libraries."""
    build = work / "sources"
    options = [f"-DOUTSIDE_SOURCES={ROOT}", "-DBUILD_SHARED_LIBS=OFF", "-DOUTSIDE_SIMULATES=OFF"]
    options.append(f"-DPython_EXECUTABLE={sys.executable}")
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    run("cmake", "-S", ROOT / "tests/external", "-B", build, "-G", "Ninja", *options, cwd=work)
    run("cmake", "--build", build, "--target", "outside_act", cwd=work)
    print("sources", run(build / "outside_act", cwd=work).strip())


def clean_environment(work: pathlib.Path) -> pathlib.Path:
    """Builds the wheel and installs it into a new virtual environment; returns its interpreter."""
    wheels = work / "wheels"
    options = ("--no-build-isolation", "--no-deps", "-q", "-w", wheels)
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT, cwd=work)
    (wheel,) = wheels.glob("canter-*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    names = run(sys.executable, "-m", "zipfile", "-l", wheel, cwd=work)
    for suffix in (".cpp", ".pyc"):
        if suffix in names:
            raise SystemExit(f"the wheel holds a {suffix} file")
    run(sys.executable, "-m", "venv", work / "venv", cwd=work)
    python = work / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=work)
    return python


def system_tbb() -> pathlib.Path | None:
    """The system's oneTBB, if there is one."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    paths = [
        line.split("=>")[-1].strip() for line in listing.splitlines() if "libtbb.so.12" in line
    ]
    return pathlib.Path(paths[0]) if paths else None


def import_orders(python: pathlib.Path) -> list[str]:
    """Every order of canter, mujoco and torch, and either oneTBB loaded before."""
    orders = ["canter", "mujoco,canter", "canter,mujoco", "numpy,canter"]
    wheel_tbb = python.parents[1] / "lib" / "libtbb.so.12"
    for library in (system_tbb(), wheel_tbb):
        if library is not None and library.exists():
            orders += [f"{library},canter,mujoco", f"{library},mujoco,canter"]
        else:
            print(f"not tried with another oneTBB loaded first: {library or 'the system has none'}")
    # torch is large: it is lent by the environment that runs this test, behind everything else
    lender = sysconfig.get_path("purelib")
    if (pathlib.Path(lender) / "torch").is_dir():
        for order in itertools.permutations(("canter", "mujoco", "torch")):
            orders.append(f"+{lender}," + ",".join(order))
    else:
        print("not tried beside torch: this interpreter has none")
    return orders


def main() -> None:
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="canter-outside-") as folder:
        work = pathlib.Path(folder)
        prefix = work / "prefix"
        run("cmake", "--install", build, "--prefix", prefix, cwd=work)
        use_from_outside("installed", prefix, work)
        use_sources(work)
        python = clean_environment(work)
        script = work / "smoke.py"
        script.write_text(textwrap.dedent(SMOKE))
        for order in import_orders(python):
            run(python, "-P", script, order, ROOT / "tests" / "external" / "pendulum.xml", cwd=work)
            print(f"wheel, in this order: {order}")
        where = run(python, "-c", "import canter; print(canter.cmake_dir())", cwd=work).strip()
        use_from_outside("wheel", pathlib.Path(where), work)


if __name__ == "__main__":
    main()
