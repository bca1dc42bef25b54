#!/usr/bin/env python3
"""Builds oneTBB with the thread sanitizer from Debian's source package, into a folder for TBB_ROOT.

    python cmake/tsan_tbb.py build/tbb-tsan

The sanitizer cannot see the synchronisation inside a library that was built without it: on correct
programs it then reports races, and hiding those would hide real ones. Ends with exit code 1 and one
line when the source cannot be had. Nothing of the system is changed, and root is not needed.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGE = "onetbb"
OPTIONS = [
    "-DTBB_SANITIZE=thread",
    "-DTBB_TEST=OFF",
    "-DTBBMALLOC_BUILD=OFF",
    "-DTBB_STRICT=OFF",
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
]


def source_lines() -> list[str]:
    """deb-src lines for the archives this machine uses."""
    lines = []
    for path in sorted(pathlib.Path("/etc/apt").glob("sources.list.d/*.sources")):
        for paragraph in path.read_text().split("\n\n"):
            fields = dict(
                line.split(":", 1)
                for line in paragraph.splitlines()
                if ":" in line and line[0] not in "# "
            )
            uris, suites = fields.get("URIs", "").split(), fields.get("Suites", "").split()
            # only Debian's own archive has the package
            if uris and "main" in fields.get("Components", "") and "debian" in uris[0]:
                key = fields.get("Signed-By", "").strip()
                option = f"[signed-by={key}] " if key else ""
                lines += [f"deb-src {option}{uris[0]} {suite} main" for suite in suites]
    for path in (pathlib.Path("/etc/apt/sources.list"),):
        for line in path.read_text().splitlines() if path.is_file() else []:
            if line.startswith("deb ") and "debian" in line:
                lines.append("deb-src" + line[3:])
    return lines


def download(work: pathlib.Path) -> pathlib.Path:
    """Gets the source package with apt's own lists in a private folder; returns the archive."""
    lines = source_lines()
    if shutil.which("apt-get") is None or not lines:
        raise SystemExit(
            "no Debian archive is set up here, so there is no source package of oneTBB"
        )
    (work / "sources.list").write_text("\n".join(lines) + "\n")
    for folder in ("state/lists/partial", "cache/archives/partial", "parts"):
        (work / folder).mkdir(parents=True)
    options = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": work / "parts",
        "Dir::State": work / "state",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    for command in (["update"], ["source", "--download-only", PACKAGE]):
        result = subprocess.run([*apt, *command], cwd=work, capture_output=True, text=True)
        if result.returncode != 0 and command != ["update"]:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise SystemExit(f"apt-get source {PACKAGE} failed: {last}")
    return next(work.glob("*.orig.tar.*"))


def main() -> None:
    target = pathlib.Path(sys.argv[1]).resolve()
    if (target / "lib" / "libtbb.so").exists():
        return
    print("building oneTBB with the thread sanitizer (about a minute)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "source").mkdir()
        subprocess.run(["tar", "xf", download(work), "-C", work / "source"], check=True)
        (source,) = (work / "source").iterdir()
        install = [f"-DCMAKE_INSTALL_PREFIX={target}", "-DCMAKE_INSTALL_LIBDIR=lib"]
        steps = (
            ["cmake", "-G", "Ninja", "-S", source, "-B", work / "build", *OPTIONS, *install],
            ["cmake", "--build", work / "build"],
            ["cmake", "--install", work / "build"],
        )
        for step in steps:
            result = subprocess.run(
                step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if result.returncode != 0:
                print(result.stdout[-3000:])
                raise SystemExit("oneTBB did not build with the thread sanitizer (see above)")


if __name__ == "__main__":
    main()
