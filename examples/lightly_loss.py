"""lightly's losses replaced by ours: one changed import, the same numbers, and a batch of any size fits in memory.

python examples/lightly_loss.py        (seconds on one core; needs lightly, of the extra `peers`)
"""

import torch

from isotherm.extras import named
from isotherm.integrations.lightly import NTXentLoss as Ours

with named():  # without lightly the error says how to get it
    from lightly.loss import NTXentLoss as Theirs
    from lightly.models.modules import SimCLRProjectionHead


def main() -> float:
    torch.manual_seed(0)
    backbone, head = torch.nn.Linear(64, 128), SimCLRProjectionHead(128, 128, 32)
    x = torch.randn(256, 64)
    z0, z1 = (head(backbone(x + 0.2 * torch.randn_like(x))) for _ in range(2))
    theirs, ours = Theirs(temperature=0.1)(z0, z1), Ours(temperature=0.1)(z0, z1)
    ours.backward()
    print(f"lightly {theirs.item():.6f}, ours {ours.item():.6f}")
    return abs(theirs.item() - ours.item())


if __name__ == "__main__":
    main()
