"""A name and the settings of what it names, such as ``NTXentLoss`` and ``temperature: 0.1``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from isotherm import doors


@dataclass(frozen=True, eq=False)
class Choice(Mapping[str, Any]):
    """Which encoder, head, predictor, method or loss, and how it is set.

    As a mapping it reads ``{name: …, setting: …}``, which is how YAML, JSON and a run's key have it. Without a name it
    is empty: a method that has its own objective has no loss.
    """

    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    """What tells one state of the file it comes from, if it comes from one, from another: an edited file is another
    run."""

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Self:
        """From ``{name: …, setting: …}``, and ``code: …`` of something from outside the package."""
        if not isinstance(mapping, Mapping):
            raise ValueError(f"a name, or {{name: …, settings}} was wanted; got {mapping!r:.60}.")
        name = str(mapping.get("name", ""))
        own = ("name", "code") if doors.is_outside(name) else ("name",)
        code = str(mapping.get("code", "")) if "code" in own else ""
        return cls(name, {k: v for k, v in mapping.items() if k not in own}, code)

    def stamped(self) -> Self:
        """With the code as the file has it now."""
        return dataclasses.replace(self, code=doors.digest(self.name) if doors.is_outside(self.name) else "")

    def as_dict(self) -> dict[str, Any]:
        """``{name: …, setting: …}``, or nothing."""
        if not self.name:
            return {}
        return {"name": self.name, **({"code": self.code} if self.code else {}), **self.settings}

    def __getitem__(self, key: str) -> Any:
        return self.as_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def __len__(self) -> int:
        return len(self.as_dict())
