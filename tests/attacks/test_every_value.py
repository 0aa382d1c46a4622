"""Every value of what describes a run or a study replaced by something odd: a sentence, or a result."""

import pytest

from attack import attack
from every import every
from targets import TARGETS

TARGET = {target.name: target for target in TARGETS}
ODD = ([], {"a": {"b": 1}}, "\x1b[2J\u202e", None, -1, 2**70, float("inf"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["records", "about", "encoder's card", "metrics"])
def test_every_value_may_be_odd(name, tmp_path):
    target = TARGET[name]
    files = dict(target.files())
    first = next(iter(files))
    tried = 0
    for what, content in every(first, files[first], ODD):
        changed = type(target)(name, lambda c=content: files | {first: c}, target.use, outputs=target.outputs)
        assert attack(changed, tmp_path / "here", None, []) in (0, 2), what
        tried += 1
    assert tried >= 35
