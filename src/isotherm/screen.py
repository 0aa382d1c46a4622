"""What reaches a terminal: names out of files are shown, never obeyed.

A file's name, an array's key or a label may hold anything: sequences that move the cursor or set the window's title,
characters that turn the direction of a line, halves of characters. Whatever is printed while `guarded` passes
`visible`, and whatever a `console` draws does; markup in it is text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # what terminals obey, but for tabs and ends of lines
    "\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # what turns or hides text
    "\ud800-\udfff]"  # halves of characters, which no stream takes
)


def visible(text: str) -> str:
    """Text with what terminals would obey, or nobody would see, as backslash escapes."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Guarded:
    """A stream of text whose writers need not think of terminals. `rich`, which does, writes past it."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Standard output and standard error with everything visible."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Guarded(before[0]), Guarded(before[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(stderr: bool = False, width: int | None = None) -> Console:
    """A console of rich that takes text as text: no markup, no control characters but its own."""
    from rich.console import Console  # noqa: PLC0415 - extra `lab`
    from rich.segment import Segment  # noqa: PLC0415

    class Visible(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for part in super().render(*arguments, **options):
                yield part if part.control else Segment(visible(part.text), part.style)

        def render_str(self, text: str, **options: Any) -> Text:  # before its width is measured
            return super().render_str(visible(text), **options)

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - rich would end the program with 1; whoever read has seen enough

    return Visible(stderr=stderr, width=width, markup=False, emoji=False)
