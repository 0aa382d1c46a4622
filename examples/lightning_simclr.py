"""A loss of ours and the monitor in PyTorch Lightning: SimCLR on scikit-learn's digits.

    python examples/lightning_simclr.py        (seconds on one core; needs lightning, scikit-learn)

The loss is called in `training_step` like any other; with `devices=2` its negatives are those of both, and the
gradient is that of one process. `training_step` returns the embeddings beside the loss, and the callback logs what they
are like: uniformity, alignment, effective rank, LiDAR …, and warns when they collapse.
"""

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import isotherm
from isotherm.integrations.lightning import MonitorCallback


class SimCLR(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
        self.loss = isotherm.nn.DySTreSSLoss(tau_min=0.1, tau_max=0.3)

    def training_step(self, batch, index):
        (x,) = batch
        z0, z1 = (self.network(x + 0.2 * torch.randn_like(x)) for _ in range(2))
        loss = self.loss(z0, z1)
        self.log("loss", loss)
        return {"loss": loss, "embeddings": (z0, z1)}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> isotherm.Monitor:
    pl.seed_everything(0, verbose=False)
    digits = torch.from_numpy(load_digits().data / 16).float()
    loader = DataLoader(TensorDataset(digits), batch_size=256, shuffle=True, drop_last=True)
    callback = MonitorCallback(isotherm.Monitor(every=5))
    trainer = pl.Trainer(
        max_epochs=4,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(SimCLR(), loader)
    for status in callback.monitor.history:
        print(status)
    return callback.monitor


if __name__ == "__main__":
    main()
