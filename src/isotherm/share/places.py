"""`push` and `pull`: from a run to a folder or the hub, and from there to a folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from isotherm import files
from isotherm.share import hub
from isotherm.share.folder import check_model, write_model
from isotherm.train.shared import shared_card


def push(
    run: Path,
    target: str,
    license: str | None = None,
    layout: str = "tsne",
    private: bool = False,
    replace: bool = False,
) -> tuple[str, list[str]]:
    """Where the model is now, and what is to be said of it."""
    if hub.is_hub(target):
        name, _ = hub.named(target)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / name.rpartition("/")[2]
            notes = write_model(run, folder, name, license, layout)
            return hub.upload(folder, target, private, replace), notes
    if private:
        raise ValueError("--private is for the hub; who may read a folder is the file system's.")
    folder = Path(target)
    _free(folder, replace)
    return target, write_model(run, folder, folder.name, license, layout)


def pull(source: str, out: Path | None = None) -> Path:
    """Bring a model into a folder of its name, or into `out`; whole or not at all."""
    if not hub.is_hub(source) and not Path(source).is_dir():
        raise ValueError(f"no folder {source}; on the hub it is hf:OWNER/NAME.")
    name = hub.named(source)[0].rpartition("/")[2] if hub.is_hub(source) else Path(source).resolve().name
    folder = out or Path(name)
    if not hub.is_hub(source) and folder.exists() and folder.samefile(source):
        raise ValueError(f"{source} is that folder already; --out names another.")
    _free(folder, replace=False)
    part = files.beside(folder)
    try:
        if hub.is_hub(source):
            hub.download(source, part)
            shutil.rmtree(part / ".cache", ignore_errors=True)  # the client's notes
        else:
            check_model(Path(source), source)
            shutil.copytree(source, part)
        check_model(part, source)
        part.rename(folder)
    except OSError as error:
        raise ValueError(f"cannot write {folder}: {files.reason(error)}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _free(folder: Path, replace: bool) -> None:
    """Refuse a place that is taken, but for a model of ours where that is asked."""
    if not folder.parent.is_dir():
        raise ValueError(f"no folder {folder.parent} to write {folder.name} into.")
    if not folder.exists():
        return
    if not replace:
        raise ValueError(f"{folder} is there already; name a folder that is not.")
    if shared_card(folder) is None:
        raise ValueError(f"{folder} holds no shared model; --replace replaces only those.")
