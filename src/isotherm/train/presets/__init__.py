"""The papers' recipes by name: what their experiment sections say, as settings of `isotherm train`.

``isotherm presets`` lists them with the numbers to expect; ``isotherm train --preset wang-liu-cifar10 --print_config >
mine.yaml`` shows one, to edit and run with ``--config``. Where a paper is silent the choice is ours, where it and its
authors' code disagree one is the preset's and the other an option, and `about` or a comment says which.
"""

from __future__ import annotations

from isotherm.train.presets.cacr_large import CACR_LARGE
from isotherm.train.presets.cacr_rivals import CACR_RIVALS
from isotherm.train.presets.cacr_small import CACR_SMALL
from isotherm.train.presets.chen_li import CHEN_LI
from isotherm.train.presets.dystress import DYSTRESS
from isotherm.train.presets.preset import Preset as Preset
from isotherm.train.presets.sentences import SENTENCES
from isotherm.train.presets.sentences import USUAL as USUAL
from isotherm.train.presets.wang_liu import WANG_LIU

PAPERS = {
    "Wang & Liu": "arXiv:2012.09740",
    "Chen & Li": "arXiv:2011.02803",
    "DySTreSS": "arXiv:2308.01140",
    "CACR": "arXiv:2105.03746",
}
OURS = {
    "digits": Preset("SimCLR on the embedded digits: seconds on a CPU, the defaults", {"data": "digits"}),
    "cifar10-cpu": Preset(
        "5,000 CIFAR-10 images, a small network, 20 epochs: under a minute on two cores",
        {"data": "cifar10", "recipe": "simclr-cifar", "normalize": "cifar10", "images": 5000, "epochs": 20},
    ),
}
PRESETS: dict[str, Preset] = {
    **OURS,
    **WANG_LIU,
    **CHEN_LI,
    **DYSTRESS,
    **SENTENCES,
    **CACR_SMALL,
    **CACR_LARGE,
    **CACR_RIVALS,
}
"""Every recipe by name."""
