"""How does the temperature shape an embedding learnt with a memory bank? (Wang & Liu 2021, arXiv:2012.09740)

    isotherm study temperature-bank                 digits, about two minutes on two cores

The study `temperature` in the paper's own setting: each image against its own past among all images, a linear head,
one view. α of the hard losses is a part of the bank. Expected: what `temperature` expects.
"""

from dataclasses import replace

from isotherm.studies import temperature

STUDY = replace(temperature.STUDY, base={"method": "bank", "monitor": 0})
