"""SimCSE (arXiv:2104.08821) and what DySTreSS's Table 12 puts in place of its loss."""

from isotherm.train.presets.preset import Preset, of, printed, with_loss

FINE_TUNED = {
    "loss": "InfoNCELoss",
    "loss.temperature": 0.05,
    "epochs": 1,
    "batch": 64,
    "lr": 3e-5,
    "optimizer": "adamw",
    "schedule": "linear",
    "weight_decay": 0.0,
}
"""SimCSE's training (app. A)."""
_BERT = {
    **FINE_TUNED,
    "data": "text:wiki1m_for_simcse.txt",
    "method": "simcse",
    "encoder": "hf:bert-base-uncased",
    "encoder.pooling": "cls",
    "encoder.length": 32,
    "head": "simcse",
}
_ROWS = {
    "dystress": ("temperatures from 0.03 to 0.05", 0.03, 0.05, None, 74.80),
    "dystress-plus": ("from 0.03 to 0.05, Δs = −0.2, k = 0.6 (DySTreSS⁺)", 0.03, 0.05, (-0.2, 0.6), 76.00),
    "dystress-star": ("from 0.03 to 0.05, Δs = −0.4, k = 0.7 (DySTreSS*)", 0.03, 0.05, (-0.4, 0.7), 75.96),
    "dystress-stars": ("from 0.03 to 0.05, Δs = −0.6, k = 0.8 (DySTreSS**)", 0.03, 0.05, (-0.6, 0.8), 75.12),
    "dystress-star-0.02": ("DySTreSS* from 0.02 to 0.05", 0.02, 0.05, (-0.4, 0.7), 75.84),
    "dystress-shifted": ("the table's best, DySTreSS* from 0.05 to 0.07", 0.05, 0.07, (-0.4, 0.7), 76.37),
    "dystress-star-0.04": ("DySTreSS* from 0.04 to 0.05", 0.04, 0.05, (-0.4, 0.7), 75.50),
}
"""The range, Δs and k, and the average over seven STS tasks."""


def _row(about: str, low: float, high: float, moved: tuple[float, float] | None, average: float) -> Preset:
    own = {} if moved is None else {"profile": "shifted", "shift": moved[0], "scale": moved[1]}
    settings = with_loss(_BERT, "DySTreSSLoss", tau_min=low, tau_max=high, **own)
    return Preset(f"§5.6, SimCSE with DySTreSS: {about}", settings, published=printed("Table 12", average, "STS"))


SENTENCES = of(
    "DySTreSS",
    "sts",
    {
        "simcse-bert": Preset(
            "SimCSE (arXiv:2104.08821) app. A, unsupervised: BERT on a million sentences of Wikipedia, the baseline",
            _BERT,
            published=printed("Table 12", 74.62, "STS"),
        ),
        "simcse-bert-macl": Preset(
            "the rival: SimCSE with MACL (τ₀ is SimCSE's; α and A₀ are MACL's for images)",
            with_loss(_BERT, "MACLLoss", temperature=0.05),
            published=printed("Table 12", 74.84, "STS"),
        ),
        **{f"simcse-bert-{name}": _row(*row) for name, row in _ROWS.items()},
    },
)
"""Its transfer tasks: ``isotherm evaluate RUN --probe senteval``."""

USUAL = {
    "sentences": FINE_TUNED,
    "sentences from scratch": {**FINE_TUNED, "head": "none", "epochs": 2, "batch": 256, "lr": 5e-3, "warmup": 0.1},
}
"""What `isotherm train --method simcse` does unless told: SimCSE's own settings (app. A), which are for a pretrained
encoder, and larger steps for one that starts from scratch (whose views are crops: `corpus`)."""
