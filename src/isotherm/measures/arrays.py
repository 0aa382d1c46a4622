"""Arrays from elsewhere: numpy's, and whatever knows ``__array__`` (pandas, jax, lists of rows), as tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Result = TypeVar("Result")


def tensor(value: Any, name: str = "array") -> Tensor:
    """`value` as a tensor, sharing memory where it can; words, such as labels, become their numbers in order."""
    if isinstance(value, Tensor):
        return value
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array, got {type(value).__name__}, which is none: {error}.") from error
    if array.dtype.kind in "USO":
        try:
            array = np.unique(array.astype(str), return_inverse=True)[1].reshape(array.shape)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold numbers or words, got {array.dtype}.") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}.")
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(native if native.flags.writeable and native.flags.c_contiguous else native.copy())


def takes_arrays(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function of tensors, called with arrays of any kind as well."""

    def converted(name: str, value: Any) -> Any:
        is_array = hasattr(value, "__array__") and not isinstance(value, Tensor | np.generic)
        return tensor(value, name) if is_array or isinstance(value, list) else value

    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*arguments: Any, **settings: Any) -> Result:
        given = [converted(names[min(i, len(names) - 1)], value) for i, value in enumerate(arguments)]
        return function(*given, **{name: converted(name, value) for name, value in settings.items()})

    return call
