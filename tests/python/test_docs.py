"""Every `>>>` example in the docstrings runs; stubs and types are those of the built module."""

import doctest
import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import canter

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    f"canter.{info.name}"
    for info in pkgutil.iter_modules(canter.__path__)
    if info.name != "__main__"
]


@pytest.mark.parametrize("name", ["canter", *MODULES])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name in ("canter._torch", "canter.torch_policy"):
        if importlib.util.find_spec("canter._torch") is None:
            pytest.skip("built without LibTorch")
        importlib.import_module("torch")
    module = importlib.import_module(name)
    # the classes of _core say canter._core; their docstrings are those of native functions
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner()
    for test in finder.find(module, name):
        runner.run(test)
    assert runner.failures == 0


def test_native_docstrings_are_found() -> None:
    names = {test.name for test in doctest.DocTestFinder().find(canter._core, "c") if test.examples}
    assert {"c.EnvPool", "c.PpoOptions", "c.Policy", "c.Trainer"} <= names


def load(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stubs() -> None:
    pytest.importorskip("pybind11_stubgen")
    generator = load(ROOT / "cmake" / "generate_stubs.py")
    assert generator.generate() == generator.TARGET.read_text(), "run cmake/generate_stubs.py"


def test_every_public_name_has_a_docstring() -> None:
    missing = [name for name in canter.__all__ if not (getattr(canter, name).__doc__ or "").strip()]
    assert missing == []


def test_quickstart(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / "quickstart.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "return" in result.stdout
