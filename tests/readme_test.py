"""Tries every fenced block of README.md: what is written there has to work.

    python tests/readme_test.py BUILD_FOLDER

python   is run                   (PYTHONPATH says where canter is)
cpp      is compiled, linked with canter::core, and run when it has a main
bash     must parse, and the first word of each line must be a command; `./dev` must know its action
A block's info string may say more: `python compile` and `cpp compile` are not run (they take long),
`xml file=cartpole.xml` is written to that file first, for the blocks after it.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECONDS = 300


def blocks(text: str) -> list[tuple[int, str, list[str], str]]:
    """(line, language, the other words of the info string, body) of each fenced block."""
    result = []
    pattern = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
    for match in pattern.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        result.append((line, match[1], match[2].split(), match[3]))
    return result


def run(command: list[str], work: pathlib.Path) -> str | None:
    """Runs a command; returns what is wrong with it, or None."""
    try:
        result = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"took longer than {SECONDS} s"
    if result.returncode == 0:
        return None
    return f"exit code {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-4000:]}"


def try_python(words: list[str], body: str, work: pathlib.Path, _: pathlib.Path) -> str | None:
    """Runs a Python block, or compiles it."""
    script = work / "snippet.py"
    script.write_text(body)
    action = ["-m", "py_compile"] if "compile" in words else []
    return run([sys.executable, *action, str(script)], work)


def try_cpp(words: list[str], body: str, work: pathlib.Path, build: pathlib.Path) -> str | None:
    """Compiles a C++ block against the build folder, and runs it if it is a program."""
    source, program = work / "snippet.cpp", work / "snippet"
    source.write_text(body)
    spec = find_spec("mujoco")
    assert spec is not None
    assert spec.submodule_search_locations
    mujoco = pathlib.Path(spec.submodule_search_locations[0])
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-Wall", str(source)]
    command += [f"-I{ROOT / 'include'}", f"-isystem{mujoco / 'include'}"]
    if "int main" not in body:
        return run([*command, "-fsyntax-only"], work)
    command += [f"-L{build}", "-lcanter_core", "-lcanter_policy"]
    command += [str(next(mujoco.glob("libmujoco.so*"))), f"-Wl,-rpath,{build}:{mujoco}"]
    wrong = run([*command, "-o", str(program)], work)
    if wrong is None and "compile" not in words:
        wrong = run([str(program)], work)
    return wrong


def try_bash(_words: list[str], body: str, work: pathlib.Path, _: pathlib.Path) -> str | None:
    """Checks the syntax of a shell block and that its commands exist."""
    wrong = run(["bash", "-n", "-c", body], work)
    for line in body.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if wrong is not None or not words:
            continue
        if words[0] == "./dev":
            if len(words) < 2 or f"./dev {words[1]} " not in (ROOT / "dev").read_text():
                wrong = f"./dev has no action {words[1:]}"
        elif shutil.which(words[0]) is None and words[0] not in ("cd", "export", "source"):
            wrong = f"no such command: {words[0]}"
    return wrong


def main() -> int:
    """Tries all blocks and returns the exit code."""
    build = pathlib.Path(sys.argv[1]).resolve()
    readme = ROOT / "README.md"
    if not readme.is_file():
        print("there is no README.md")
        return 1
    checks = {"python": try_python, "cpp": try_cpp, "bash": try_bash, "sh": try_bash}
    bad = tried = 0
    with tempfile.TemporaryDirectory(prefix="canter-readme-") as folder:
        work = pathlib.Path(folder)
        for line, language, words, body in blocks(readme.read_text()):
            for word in words:
                if word.startswith("file="):
                    (work / pathlib.PurePath(word[5:]).name).write_text(body)
            if language not in checks:
                continue
            tried += 1
            wrong = checks[language](words, body, work, build)
            bad += wrong is not None
            print(f"README.md:{line} {language}: {'ok' if wrong is None else wrong}", flush=True)
    print(f"{tried} blocks tried, {bad} bad")
    return 1 if bad or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
