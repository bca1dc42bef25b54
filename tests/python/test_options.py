"""Options structs: keywords, fields, equality, pickling, all from C++'s visit."""

import copy
import pickle

import numpy as np
import pytest

import canter

CLASSES = [
    canter.PoolOptions,
    canter.MlpPolicyOptions,
    canter.PpoOptions,
    canter.CheckpointOptions,
    canter.EvaluateOptions,
]


@pytest.mark.parametrize("cls", CLASSES)
def test_round_trips(cls: type) -> None:
    options = cls()
    for other in (
        pickle.loads(pickle.dumps(options)),
        copy.copy(options),
        copy.deepcopy(options),
        cls(**options.to_dict()),
        eval(repr(options), {cls.__name__: cls}),
    ):
        assert other == options
        assert other is not options
    # every field reads back what was written
    for name, value in options.to_dict().items():
        assert getattr(options, name) == value
        setattr(options, name, value)
    assert options == cls()
    assert options != object()


def test_values_and_defaults() -> None:
    options = canter.PpoOptions(horizon=32, learning_rate=1e-3, truncation="mask")
    assert (options.horizon, options.learning_rate, options.truncation) == (32, 1e-3, "mask")
    assert options.num_epochs == canter.PpoOptions().num_epochs
    assert options != canter.PpoOptions()
    options.learning_rate = np.float32(3e-4)
    assert options.learning_rate == 3e-4
    options.horizon = np.int64(8)
    assert options.horizon == 8
    # 1e6 is a fine number of steps
    options.horizon = 1e3
    assert options.horizon == 1000
    assert canter.MlpPolicyOptions(hidden=(8, np.int16(4))).hidden == [8, 4]
    assert canter.MlpPolicyOptions(hidden=np.array([5])).hidden == [5]


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (canter.PpoOptions, {"horizn": 1}, 'did you mean "horizon"'),
        (canter.PpoOptions, {"zzzzzzzz": 1}, "there are horizon"),
        (canter.PpoOptions, {"horizon": "many"}, "horizon must be an integer"),
        (canter.PpoOptions, {"horizon": 1.5}, "horizon must be an integer, got 1.5"),
        (canter.PpoOptions, {"horizon": 2**40}, "horizon"),
        (canter.PpoOptions, {"horizon": 2**80}, "horizon"),
        (canter.PpoOptions, {"learning_rate": "fast"}, "learning_rate must be a"),
        (canter.PpoOptions, {"normalize_advantages": 3}, "must be true or false"),
        (canter.PpoOptions, {"truncation": "bootstap"}, 'did you mean "bootstrap"'),
        (canter.PpoOptions, {"gamma": None}, "gamma must be"),
        (canter.PpoOptions, {"gamma": {}}, "gamma must be"),
        (canter.MlpPolicyOptions, {"hidden": 64}, "hidden must be a list of integers"),
        (canter.MlpPolicyOptions, {"hidden": [1.5]}, "hidden must be"),
        (canter.MlpPolicyOptions, {"activation": "tan"}, 'did you mean "tanh"'),
    ],
)
def test_refusals(cls: type, values: dict, message: str) -> None:
    with pytest.raises(canter.InvalidArgument, match=message):
        cls(**values)


def test_an_attribute_that_is_no_option() -> None:
    with pytest.raises(AttributeError):
        canter.PpoOptions().horizn = 3
