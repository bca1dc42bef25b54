"""How contenders take turns: each runs in a process of its own and works only when told to.

A contender prints one JSON line when it is ready. Then, for every line `go SECONDS` it reads, it
works for about that long and answers `[environment steps, wall seconds, CPU seconds]`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable


def serve(make: Callable[[], tuple[Callable[[], int], str]]) -> None:
    """Makes a contender and serves turns until the input ends.

    Args:
        make: Returns the version of what runs and a function that does a little work and returns
            its environment steps.
    """
    # answers go where stdout was; what libraries print goes to stderr
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work, version = make()
    work()
    print(json.dumps({"version": version}), file=answers, flush=True)
    for line in sys.stdin:
        seconds = float(line.split()[1])
        steps = 0
        cpu, wall = time.process_time(), time.perf_counter()
        while time.perf_counter() - wall < seconds:
            steps += work()
        took = [time.perf_counter() - wall, time.process_time() - cpu]
        print(json.dumps([steps, *took]), file=answers, flush=True)
    os._exit(0)  # libraries with threads of their own do not always end well


class Contender:
    """The other end: a process that answers turns."""

    def __init__(self, name: str, command: list[str], num_threads: int = 1) -> None:
        threads = str(num_threads)
        environment = dict(
            os.environ, OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, OPENBLAS_NUM_THREADS="1"
        )
        self.name = name
        self.turns: list[tuple[int, float, float]] = []
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (a pipe nobody reads would fill up)
        self._process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.version = json.loads(self._read())["version"]

    def go(self, seconds: float) -> None:
        """Lets it work once."""
        assert self._process.stdin
        self._process.stdin.write(f"go {seconds}\n")
        self._process.stdin.flush()
        self.turns.append(tuple(json.loads(self._read())))

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"{self.name} died:\n{self._log.read()[-2000:]}")
        return line
