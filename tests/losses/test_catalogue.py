"""The list of losses read from the source is that of the classes; losses of the user's own are found where they lie."""

import pytest

from isotherm import nn
from isotherm.losses import catalogue

MINE = """
from isotherm.nn import Loss, NTXentLoss

class Mine(Loss):
    \"\"\"What mine says.\"\"\"

    def __init__(self, strength, scale=0.5, *, reduction="mean", **more):
        super().__init__(reduction)

class Another(NTXentLoss):
    pass

def function():
    pass
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_what_is_read_from_the_source_is_what_the_classes_say():
    light, real = catalogue.descriptions(), catalogue.losses()
    assert [each.name for each in light] == [each.name for each in real]
    for read, entry in zip(light, real, strict=True):
        assert (read.doc, read.settings) == (entry.doc, entry.settings), entry.name
        assert read.call == entry.call
        assert entry.loss is getattr(nn, entry.name)
        assert entry.summary
        assert entry.paper
        assert entry.equation


def test_a_file_is_searched_for_its_own_losses(mine):
    another, own = catalogue.outside(str(mine))
    assert (another.name, another.settings["temperature"]) == ("Another", "0.2")
    assert own.call == "Mine(strength, scale=0.5)"
    assert own.settings == {"strength": "", "scale": "0.5", "reduction": "'mean'"}
    assert own.summary == "What mine says."
    assert catalogue.outside(f"{mine}:Mine") == [own]
    assert catalogue.outside("isotherm.nn:CMCLoss")[0].loss is nn.CMCLoss


def test_what_is_no_loss_is_refused(mine, tmp_path):
    with pytest.raises(ValueError, match="function is a function; a subclass"):
        catalogue.outside(f"{mine}:function")
    with pytest.raises(ValueError, match="math:tau is a float; a subclass"):
        catalogue.outside("math:tau")
    (tmp_path / "empty.py").write_text("from isotherm.nn import NTXentLoss\n")
    with pytest.raises(ValueError, match=r"empty\.py holds no loss"):
        catalogue.outside(str(tmp_path / "empty.py"))
