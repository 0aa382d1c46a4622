"""open_clip's loss replaced by ours: the call of its training loop, at its learnable scale.

    python examples/open_clip_loss.py        (seconds on one core; needs open_clip_torch)

A small CLIP of open_clip's own, with random weights, learns eight images and their texts.
"""

import torch
from open_clip.model import CLIP

from isotherm.integrations.open_clip import ClipLoss


def main() -> list[float]:
    torch.manual_seed(0)
    model = CLIP(
        embed_dim=32,
        vision_cfg={"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
        text_cfg={"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1},
        output_dict=True,
    )
    loss = ClipLoss(local_loss=True, gather_with_grad=True, rank=0, world_size=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, texts = torch.randn(8, 3, 16, 16), torch.randint(1, 64, (8, 8))
    values = []
    for _ in range(20):
        out = model(images, texts)
        parts = loss(**out, output_dict=True)  # as open_clip's train_one_epoch does
        total = sum(parts.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        values.append(total.item())
    print(f"loss {values[0]:.3f} at first, {values[-1]:.3f} at last; scale {out['logit_scale'].item():.3f}")
    return values


if __name__ == "__main__":
    main()
