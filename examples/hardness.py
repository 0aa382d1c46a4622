"""How a temperature divides its attention among negatives: Wang & Liu fig. 3, DySTreSS figs. 2–4.

    python examples/hardness.py [OUT.png]        (a second; needs matplotlib)

Left: the relative penalty r(s) of a negative against its similarity s, for several constant temperatures and for each
DySTreSS profile; negatives are spread evenly over [−1, 1]. Right: the profiles τ(s) themselves, and the solution of the
differential equation they approximate.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from isotherm import temperature
from isotherm.measures import hardness

S = torch.linspace(-1, 1, 401)
PROFILES = {
    "cosine": temperature.Cosine(0.07, 0.2),
    "linear": temperature.Linear(0.07, 0.2),
    "exponential": temperature.Exponential(0.07, 0.2),
    "monotone": temperature.Monotone(0.07, 0.2),
    "shifted −0.4": temperature.Shifted(0.07, 0.2, -0.4, 0.7),
}


def draw(out: Path) -> None:
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True})
    plt.rcParams.update({"grid.alpha": 0.25, "axes.titlesize": 10, "axes.titlelocation": "left"})
    figure, ((constant, profiles), (dynamic, ode)) = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")

    warm = plt.get_cmap("viridis")
    for i, tau in enumerate((0.07, 0.1, 0.2, 0.5, 1.0)):
        constant.plot(S, hardness(S, tau), label=f"τ = {tau}", color=warm(i / 4.6), lw=1.8)
    constant.set(title="relative penalty, constant temperature", ylabel="r(s)", yscale="log", ylim=(1e-8, 0.2))

    for name, profile in PROFILES.items():
        profiles.plot(S, profile(S), label=name, lw=1.8)
        dynamic.plot(S, hardness(S, profile), label=name, lw=1.8)
    profiles.set(title="temperature of a pair, DySTreSS profiles (0.07–0.2)", ylabel="τ(s)", ylim=(0.05, 0.27))
    dynamic.set(title="relative penalty, DySTreSS profiles", ylabel="r(s)", yscale="log", ylim=(1e-8, 0.2))

    for i, product in enumerate((0.001, 0.01, 0.1)):  # c⁻ meets τ₊ at s = −1, c⁺ at s = 1: each on its own half
        halves = [temperature.ode_solution(S, tau_max=0.2, delta=product, k=1.0, blend=b) for b in (0.0, 1.0)]
        tau = torch.where(S < 0, *halves)
        tau[(tau <= 0) | (S == 0)] = torch.nan
        ode.plot(S, tau, label=f"δK = {product}", color=warm(i / 2.6), lw=1.8)
    ode.set(title="equal-gradient temperature, eq. 14 (c⁻ left, c⁺ right)", ylabel="τ(s)", ylim=(0, 0.3))

    for axes in figure.axes:
        axes.set_xlabel("similarity s of the negative")
        axes.legend(frameon=False, fontsize=8, ncols=2 if axes is profiles else 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    print(f"The hardness figure is in {out}")


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/hardness.png"))
