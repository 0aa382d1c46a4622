"""Do a few easy bits suppress what an image shows? (Chen & Li 2021, arXiv:2011.02803, §3)

    isotherm study randbit                          digits, about eight minutes on two cores
    isotherm study randbit --data mnist             3,000 images, about a quarter of an hour

Every view of an image carries the same random bits as further channels. NT-Xent at three temperatures, MoCo, decoupled
NT-Xent and the sliced Wasserstein distance learn from that, beside a VAE and labels. Expected: a few bits take the
image's class out of the features of every contrastive loss, not of the VAE.
"""

from dataclasses import replace

from isotherm.experiments.claims.rules import Keeps, Loses, Ordered
from isotherm.experiments.figures.plots import Against
from isotherm.experiments.papers import CHEN_LI
from isotherm.experiments.sizes import ADAM, LARS, QUICK, SMOKE
from isotherm.experiments.study import Arm, Claim, Figure, Scale, Settings, Study, Where

BITS = "randbit"
KS = (0, 2, 4, 8, 12, 16)
TAUS = (0.05, 0.2, 0.5)
MOCO, DECOUPLED, SWD, VAE, LABELS = "MoCo", "decoupled NT-Xent", "SWD (hypersphere)", "VAE", "labels"
NTXENT = {t: f"NT-Xent, τ = {t:g}" for t in TAUS}
CONTRASTIVE = (*NTXENT.values(), MOCO, DECOUPLED, SWD)
OVER = {BITS: KS}
_VAE = {"method": "vae", "encoder": "vae", "head": "none", "recipe": "none", "views": 1}


def patient(settings: Settings) -> dict[str, int]:
    """Reconstruction learns more slowly: the VAE has six times the epochs."""
    return {"epochs": 6 * settings["epochs"]} if settings["method"]["name"] == "vae" else {}


BASE = {**ADAM, "monitor": 0}
MEASURE = ("probes", "competing", "geometry")
ARMS = (
    *(Arm(NTXENT[t], {"method": "simclr", "loss": "NTXentLoss", "loss.temperature": t}, OVER) for t in TAUS),
    Arm(
        MOCO,
        {
            "method": "mocov2",
            "method.queue": 1024,
            "method.momentum": 0.99,
            "loss": "NTXentLoss",
            "loss.temperature": 0.2,
        },
        OVER,
    ),
    Arm(
        DECOUPLED,
        {"method": "simclr", "loss": "DecoupledNTXentLoss", "loss.temperature": 1.0, "loss.weight": 0.1},
        OVER,
    ),
    Arm(SWD, {"method": "simclr", "loss": "GeneralizedContrastiveLoss", "loss.weight": 5.0}, OVER),
    Arm(VAE, _VAE, OVER),
    Arm(LABELS, {"method": "supervised", "head": "none", "views": 1}, OVER),
)
SCALES = {
    "smoke": Scale("seconds, to see that everything works", {**SMOKE, "epochs": 1}, only={BITS: (0, 8)}),
    "cpu": Scale(
        "a small network; three seeds",
        {"epochs": 15},
        seeds=3,
        only={BITS: (0, 2, 4, 8)},
        data=QUICK,
        adjust=patient,
    ),
    "paper": Scale(
        "§3.2: CIFAR-10, ResNet-18, 400 epochs; a GPU",
        {
            "data": "cifar10",
            "recipe": "simclr-cifar",
            "encoder": "resnet18",
            "head": "simclr",
            "head.width": 64,
            **LARS,
            "epochs": 400,
            "batch": 128,
        },
        seeds=3,
    ),
}
CLAIMS = (
    Claim(
        "Added bits take at least twenty points of kNN accuracy from every contrastive loss.",
        "§3.2, fig. 6 and C.1a",
        Loses("knn", [Where(name) for name in CONTRASTIVE], BITS, least=0.2),
    ),
    Claim(
        "And of linear accuracy.",
        "§3.2, fig. 6 and C.1a",
        Loses("linear", [Where(name) for name in CONTRASTIVE], BITS, least=0.2),
    ),
    Claim(
        "The VAE loses at most five points of linear accuracy.",
        "app. C.1, fig. C.1b",
        Keeps("linear", [Where(VAE)], BITS, most=0.05),
    ),
    Claim(
        "So does a network that has the labels.",
        "§4 (it may exist in supervised learning, too: ours to test)",
        Keeps("linear", [Where(LABELS)], BITS, most=0.05),
    ),
    Claim(
        "With four bits a smaller temperature keeps more of the image.",
        "§3.2, fig. 6a",
        Ordered("linear", [Where(NTXENT[t], {BITS: 4}) for t in TAUS], 0.02),
    ),
)
_ALL = (*CONTRASTIVE, VAE, LABELS)
FIGURES = (
    Figure("Accuracy against added bits", "fig. 6 and C.1", Against(_ALL, BITS, "added bits", ("linear", "knn"))),
    Figure("How well the bits can be read", "§3.2", Against(_ALL, BITS, "added bits", ("linear_bits",))),
)
PAPER = replace(
    CHEN_LI,
    differs="The paper trains ResNet-18 for 400 epochs on CIFAR-10 (and on MNIST and ImageNet) and shows images "
    "without numbers; of its VAE it says no more. At cpu scale ours is a small convnet and Adam; the VAE has six "
    "times the epochs.",
)

STUDY = Study(BASE, ARMS, SCALES, CLAIMS, FIGURES, PAPER, measure=MEASURE)
