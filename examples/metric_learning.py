"""Losses of ours in a loop of pytorch-metric-learning's: ``loss(embeddings, labels)``, its sampler and its accuracy.

python examples/metric_learning.py        (seconds on one core; needs pytorch-metric-learning, scikit-learn)
"""

import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.samplers import MPerClassSampler
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import isotherm
from isotherm.integrations.metric_learning import MetricLearningLoss


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.from_numpy(digits.data / 16).float(), torch.from_numpy(digits.target)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    loss = MetricLearningLoss(isotherm.nn.SupConLoss(temperature=0.1))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    calculator = AccuracyCalculator(
        include=("precision_at_1",), k=1, device=torch.device("cpu"), knn_func=CustomKNN(CosineSimilarity())
    )

    def accuracy() -> float:
        with torch.no_grad():
            z = network(x)
        return calculator.get_accuracy(z[1000:], y[1000:], z[:1000], y[:1000])["precision_at_1"]

    before = accuracy()
    sampler = MPerClassSampler(y[:1000], m=8, batch_size=80, length_before_new_iter=1000)
    for _ in range(4):
        for inputs, labels in DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=80, sampler=sampler):
            optimizer.zero_grad()
            loss(network(inputs), labels).backward()
            optimizer.step()
    after = accuracy()
    print(f"precision at 1: {before:.3f} before, {after:.3f} after")
    return before, after


if __name__ == "__main__":
    main()
