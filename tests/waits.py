"""Counts where a GPU would have to be waited for, on a processor: every operation whose result Python must know."""

import collections
import traceback

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

ASKS = {
    "_local_scalar_dense",
    "is_nonzero",
    "nonzero",
    "equal",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "masked_select",
    "bincount",
}
"""A number, or a result whose size is in the data."""
BRINGS = {"lift_fresh"}
"""A tensor of Python's numbers: on a GPU a copy from ordinary memory, which waits for all that is queued."""
FETCHES = {"tolist", "cpu", "numpy", "__array__"}
"""To the processor, entry by entry or whole; seen in Python only, as it is no operation where the tensor is there."""


class Waits(TorchDispatchMode):
    """Where there were waits, and how often. Optimizers of torch count their steps on the processor: no wait."""

    def __init__(self):
        super().__init__()
        self.sites = collections.Counter()
        self.fetches = _Fetches(self)

    @property
    def count(self):
        return sum(self.sites.values())

    def __enter__(self):
        self.fetches.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.fetches.__exit__(*error)

    def note(self, name):
        stack = [f for f in traceback.extract_stack() if "/torch/utils/" not in f.filename]
        if not any("/torch/optim/" in f.filename for f in stack):
            ours = [f for f in stack if "/isotherm/" in f.filename]
            self.sites[f"{name} at {ours[-1].filename}:{ours[-1].lineno}" if ours else name] += 1

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._overloadpacket.__name__
        listed = args[1] if name in ("index", "index_put_", "index_put") else ()
        masked = any(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8) for i in listed)
        spread = name == "repeat_interleave" and (kwargs or {}).get("output_size") is None
        if name in ASKS or name in BRINGS or masked or spread:
            self.note(name)
        return function(*args, **(kwargs or {}))


class _Fetches(TorchFunctionMode):
    def __init__(self, waits):
        super().__init__()
        self.waits = waits

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in FETCHES:
            self.waits.note(function.__name__)
        return function(*args, **(kwargs or {}))
