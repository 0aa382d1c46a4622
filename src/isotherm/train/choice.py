"""A name and the settings of what it names, such as ``NTXentLoss`` and ``temperature: 0.1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, eq=False)
class Choice(Mapping[str, Any]):
    """Which encoder, head, predictor, method or loss, and how it is set.

    As a mapping it reads ``{name: …, setting: …}``, which is how YAML, JSON and a run's key have it. Without a name it
    is empty: a method that has its own objective has no loss.
    """

    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Self:
        """From ``{name: …, setting: …}``."""
        return cls(str(mapping.get("name", "")), {k: v for k, v in mapping.items() if k != "name"})

    def as_dict(self) -> dict[str, Any]:
        """``{name: …, setting: …}``, or nothing."""
        return {"name": self.name, **self.settings} if self.name else {}

    def __getitem__(self, key: str) -> Any:
        return self.as_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def __len__(self) -> int:
        return len(self.as_dict())
