"""The hub, through its own client; nothing is asked of it but what `hf:OWNER/NAME` names.

HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to the client.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from isotherm import extras
from isotherm.encoders.text.huggingface import quietly

HUB = "hf:"
NAME = re.compile(r"[\w.-]+/[\w.-]+")
NO_CODE = ["*.py", "*.pkl", "*.pickle", "*.bin", "*.pt", "*.pth"]
"""What is not brought: programs, and files that can hold some."""


def is_hub(place: str) -> bool:
    return place.startswith(HUB)


def named(place: str) -> tuple[str, str | None]:
    """OWNER/NAME, and the revision behind an @, if there is one."""
    name, _, revision = place.removeprefix(HUB).partition("@")
    if not NAME.fullmatch(name):
        raise ValueError(f"'{place}' is no name on the hub; say hf:OWNER/NAME.")
    return name, revision or None


def upload(folder: Path, place: str, private: bool, replace: bool) -> str:
    """Put a folder there in one commit; the address of the model."""
    name, revision = named(place)
    if revision:
        raise ValueError(f"'{place}' names a revision; a model is pushed to hf:OWNER/NAME.")
    hub = _client()
    with _telling(f"push to {place}"):
        api = hub.HfApi(endpoint=_endpoint(hub))
        if not replace and api.repo_exists(name):
            raise ValueError(f"{place} is there already; --replace puts this one in its place.")
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(folder_path=folder, repo_id=name, commit_message="Pushed by isotherm")
    return f"{_endpoint(hub)}/{name}"


def download(place: str, folder: Path) -> None:
    """Bring a model into a folder."""
    name, revision = named(place)
    hub = _client()
    with _telling(f"pull {place}"):
        hub.snapshot_download(
            name, revision=revision, local_dir=folder, ignore_patterns=NO_CODE, endpoint=_endpoint(hub)
        )


def _client() -> Any:
    try:
        hub = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.constants")  # it is no attribute before somebody imports it
    except ModuleNotFoundError as error:
        raise ValueError(f"hf: needs huggingface_hub: {extras.command('text')}.") from error
    host = urlsplit(_endpoint(hub)).hostname
    if not (hub.constants.HF_HUB_OFFLINE or getproxies()):
        try:
            socket.getaddrinfo(host, 443)
        except OSError as error:
            raise ValueError(f"no network: {host} is not known here. A folder needs none.") from error
    return hub


def _endpoint(hub: Any) -> str:
    """As it is set now: the client looks once, when it is imported."""
    return (os.environ.get("HF_ENDPOINT") or str(hub.constants.ENDPOINT)).rstrip("/")


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """What the hub or the way to it says, in a sentence."""
    try:
        with quietly():
            yield
    except ValueError as error:
        if type(error) is ValueError:
            raise
        raise ValueError(f"cannot {what}: {_said(error)}.") from error
    except Exception as error:  # its client raises dozens of kinds, and those of what it is made of
        raise ValueError(f"cannot {what}: {_said(error)}.") from error


def _said(error: Exception) -> str:
    code = getattr(getattr(error, "response", None), "status_code", None)
    if code in (401, 403):
        return "not allowed, or not there; log in with `hf auth login`, or set HF_TOKEN"
    if code == 404:
        return "there is no such model"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{lines[0] if lines else type(error).__name__}"[:200].rstrip(".")
