"""canter writes safetensors files: read here by an independent parser, from the format's text."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import canter

DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U64": "<u8", "U8": "|u1"}


def parse(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str], int]:
    """Arrays, metadata and the offset of the data; every rule of the format is checked."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    assert size <= 100_000_000
    text = data[8 : 8 + size].decode("utf-8")
    assert text[0] == "{"

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in pairs]
        assert len(set(keys)) == len(keys)
        return dict(pairs)

    header = json.loads(text, object_pairs_hook=unique)
    metadata = header.pop("__metadata__")
    assert all(isinstance(value, str) for value in metadata.values())
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(entry) == {"dtype", "shape", "data_offsets"}
        first, last = entry["data_offsets"]
        assert first == end, "the format knows no holes"
        end = last
        dtype = np.dtype(DTYPES[entry["dtype"]])
        assert last - first == dtype.itemsize * int(np.prod(entry["shape"], dtype=np.int64))
        arrays[name] = np.frombuffer(data[8 + size + first : 8 + size + last], dtype).reshape(
            entry["shape"]
        )
        if not name.startswith("__padding__/") and last > first:
            assert (8 + size + first) % 64 == 0
    assert 8 + size + end == len(data)
    return arrays, metadata, 8 + size


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory after two iterations."""
    directory = tmp_path_factory.mktemp("run")
    pool = canter.make_pool("CartPole-v1", num_envs=3, seed=1)
    policy = canter.MlpPolicy(pool.spec, hidden=[8], seed=1)
    trainer = canter.Trainer(
        pool, policy, ppo=canter.PpoOptions(horizon=16, num_minibatches=2), directory=str(directory)
    )
    for _ in range(2):
        trainer.iterate()
    trainer.save()
    return directory


def test_policy_file(run: Path) -> None:
    arrays, metadata, start = parse(run / "policy.safetensors")
    assert start % 4096 == 0
    assert metadata["format"] == "canter"
    assert metadata["policy.kind"] == "mlp"
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes["policy/actor.0.weight"] == (8, 4)
    assert shapes["policy/actor.1.weight"] == (2, 8)
    assert shapes["policy/critic.1.bias"] == (1,)
    assert arrays["policy/actor.0.weight"].dtype == np.float32
    assert arrays["policy/observation_moments/mean"].dtype == np.float64


def test_checkpoint(run: Path) -> None:
    (step,) = (run / "checkpoints").glob("step-*")
    assert step.name == f"step-{2 * 3 * 16:012d}"
    manifest = json.loads((step / "MANIFEST.json").read_text())
    assert manifest["step"] == 2 * 3 * 16
    assert manifest["world_size"] == 1
    (file,) = manifest["files"]
    assert file["env_range"] == [0, 3]
    assert file["size"] == (step / file["name"]).stat().st_size
    arrays, _, start = parse(step / file["name"])
    assert start % 4096 == 0
    assert arrays["env/observations"].shape == (3, 4)
    assert arrays["cereal/trainer"].dtype == np.uint8
    # rows of an environment are indexed by its global id
    for name, array in arrays.items():
        if name.startswith("env/"):
            assert array.shape[0] == 3, name


def test_checksums_are_those_of_xxhash(run: Path) -> None:
    xxhash = pytest.importorskip("xxhash")
    path = run / "policy.safetensors"
    arrays, metadata, start = parse(path)
    for name, array in arrays.items():
        assert metadata["xxh3/" + name] == xxhash.xxh3_128_hexdigest(array.tobytes())
    header = bytearray(path.read_bytes()[:start])
    digits = header.index(b'"xxh3":"') + 8
    own = bytes(header[digits : digits + 32])
    header[digits : digits + 32] = b"0" * 32
    assert xxhash.xxh3_128_hexdigest(bytes(header)) == own.decode()
