#!/usr/bin/env python3
"""Gets the headers that canter compiles against out of PyPI packages, for machines without root.

    python cmake/fetch_headers.py --into build/headers [name ...]

Writes DIR/include; packages are downloaded with this interpreter's pip, so a mirror that pip is set
up with is used here too. Without names: all of them. Only headers are taken, nothing is installed.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

# name: (requirement, wheel or sdist, where the headers lie inside the archive)
SOURCES = {
    # the oldest oneTBB that canter supports: what is compiled against it loads with any later one
    "tbb": ("tbb-devel==2021.8.0", "wheel", r".*\.data/data/include/(?P<path>(oneapi|tbb)/.*)"),
    "cereal": ("cmeel-cereal", "wheel", r"(.*/)?cmeel\.prefix/include/(?P<path>cereal/.*)"),
    "nlohmann_json": ("nlohmann-json", "wheel", r"(.*/)?include/(?P<path>nlohmann/.*)"),
    "xxhash": ("xxhash", "sdist", r"[^/]*/deps/xxhash/(?P<path>(xxhash|xxh3)\.h)"),
    "tomlplusplus": (
        "pytomlpp",
        "sdist",
        r"[^/]*/third_party/tomlplusplus/include/(?P<path>toml\+\+/.*)",
    ),
}


def download(requirement: str, kind: str, folder: pathlib.Path) -> pathlib.Path:
    """Downloads one package and returns its archive."""
    form = ["--only-binary=:all:"] if kind == "wheel" else ["--no-binary=:all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *form]
    subprocess.run([*command, "--dest", str(folder), requirement], check=True)
    return next(iter(folder.iterdir()))


def files_of(archive: pathlib.Path):
    """Yields (name, bytes) of every file of a wheel or a source distribution."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                if not name.endswith("/"):
                    yield name, packed.read(name)
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isfile():
                yield member.name, packed.extractfile(member).read()


def fetch(name: str, include: pathlib.Path) -> int:
    """Copies the headers of one source below `include`; returns how many."""
    requirement, kind, pattern = SOURCES[name]
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files_of(download(requirement, kind, pathlib.Path(folder))):
            match = re.fullmatch(pattern, path)
            # an archive is somebody else's text: it may not write outside the folder
            if match is None or ".." in match["path"].split("/"):
                continue
            target = include / match["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            count += 1
    if count == 0:
        raise SystemExit(f"{requirement}: no headers inside; its layout has changed")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=pathlib.Path, default=pathlib.Path("build/headers"))
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(SOURCES))
    arguments = parser.parse_args()
    for name in arguments.names or SOURCES:
        if name not in SOURCES:
            parser.error(f"unknown name {name!r}; known: {', '.join(SOURCES)}")
        count = fetch(name, arguments.into / "include")
        print(f"{name}: {count} headers from {SOURCES[name][0]}", flush=True)


if __name__ == "__main__":
    main()
