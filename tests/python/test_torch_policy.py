"""TorchPolicy: the networks of MlpPolicy under autograd; built only beside LibTorch."""

import copy
import importlib.util
import pickle

import numpy as np
import pytest

import canter

if importlib.util.find_spec("canter._torch") is None:
    pytest.skip("built without LibTorch", allow_module_level=True)

SPECS = {name: canter.make_pool(name).spec for name in ("CartPole-v1", "Pendulum-v1")}


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("shared_trunk", [False, True])
def test_like_mlp_policy(name: str, shared_trunk: bool) -> None:
    options = {"hidden": [16, 8], "activation": "elu", "shared_trunk": shared_trunk, "seed": 3}
    ours = canter.MlpPolicy(SPECS[name], **options)
    theirs = canter.TorchPolicy(SPECS[name], **options)
    assert isinstance(theirs, canter.Policy)
    assert (ours.kind, theirs.kind) == ("mlp", "torch")
    assert list(ours.parameters) == list(theirs.parameters)
    for key, array in ours.parameters.items():
        np.testing.assert_array_equal(array, theirs.parameters[key])
    rows = np.random.default_rng(2).normal(size=(33, SPECS[name].observation_size))
    np.testing.assert_allclose(ours.value(rows), theirs.value(rows), atol=1e-5)
    np.testing.assert_allclose(
        ours.act(rows, deterministic=True), theirs.act(rows, deterministic=True), atol=1e-5
    )


def test_trains_like_mlp_policy() -> None:
    """One update of each from the same start: autograd runs without the GIL."""
    parameters = []
    for cls in (canter.MlpPolicy, canter.TorchPolicy):
        pool = canter.make_pool("Pendulum-v1", num_envs=4, seed=1, num_threads=1)
        policy = cls(pool.spec, hidden=[8], seed=1)
        trainer = canter.Trainer(pool, policy, horizon=16, num_minibatches=2, num_epochs=1)
        assert trainer.iterate().skipped_updates == 0
        parameters.append(policy.parameters)
    start = canter.MlpPolicy(SPECS["Pendulum-v1"], hidden=[8], seed=1).parameters
    for key, array in parameters[0].items():
        assert (array != start[key]).any()
        # two steps of Adam of 3e-4 each, whose sign is that of the gradient
        np.testing.assert_allclose(array, parameters[1][key], atol=2e-5)


def test_no_copies() -> None:
    policy = canter.TorchPolicy(SPECS["CartPole-v1"])
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="parameters"):
            copier(policy)
    with pytest.raises(canter.InvalidArgument, match='did you mean "hidden"'):
        canter.TorchPolicy(SPECS["CartPole-v1"], hiden=[3])
