"""Small networks and images for the tests of encoders."""

import torch
from torch import nn


def noise(n=2, channels=3, size=32, dtype=torch.float32, seed=0):
    return torch.rand(n, channels, size, size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def shaken(module, seed=0):
    """The module with weights and running statistics that are all different: no zero or one hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
                value.copy_(0.5 + noise.abs() if "running_var" in name else value + 0.1 * noise)
    return module


class Odd(nn.Module):
    """Uses one layer twice and one never; gives what it is told."""

    def __init__(self, gives):
        super().__init__()
        self.twice, self.never, self.gives = nn.Flatten(), nn.Flatten(), gives

    def forward(self, x):
        self.twice(x)
        return self.gives(self.twice(x))
