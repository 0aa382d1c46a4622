"""Everything that reads a file: how to write a small valid one, which ways of damaging it make sense, who reads it."""

import gzip
import io
import json
import pickle
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
import torch
from scipy.io import savemat

import edits as change
import tar_shards
import written
from isotherm.cli import main
from isotherm.data import sentences as corpora
from isotherm.data.senteval import classified, rated
from isotherm.encoders import text
from isotherm.experiments import find, points
from isotherm.experiments.execute import About
from isotherm.experiments.records import Record, as_lines, read, training_of
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from isotherm.train.runs import as_yaml, load_encoder

Files = Mapping[str, bytes]
Way = Callable[[bytes, list[change.Edit]], bytes]


@dataclass(frozen=True)
class Target:
    """A reader, and a valid file for it."""

    name: str
    files: Callable[[], Files]
    """Contents by their places in the folder; the first is what gets damaged."""
    use: Callable[[Path], list[str] | Callable[[], object]]
    """The command line that reads the folder, or a function that does."""
    ways: tuple[Way, ...] = (change.damaged,)
    outputs: tuple[str, ...] = ()
    cost: int = 1
    """About how many times slower than the quick ones: it gets fewer examples."""


def inspecting(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: ["inspect", str(folder / name), "--map", "none", "--json", str(folder / "out.json")]


def showing(name: str) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        place = name.replace("HERE", str(folder))
        how = ["--rows", "2", "--views", "1", "--recipe", "none", "--out", str(folder / "out.png")]
        return ["data", "show", place, *how]

    return words


def z() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


def npy() -> Files:
    out = io.BytesIO()
    np.save(out, z())
    return {"z.npy": out.getvalue()}


def npz(pack: Callable[..., None]) -> Callable[[], Files]:
    def files() -> Files:
        out = io.BytesIO()
        pack(out, z=z(), labels=np.arange(24) % 3)
        return {"z.npz": out.getvalue()}

    return files


def pt() -> Files:
    out, old = io.BytesIO(), io.BytesIO()
    torch.save({"z": torch.from_numpy(z()), "labels": torch.arange(24) % 3}, out)
    torch.save(torch.from_numpy(z()), old, _use_new_zipfile_serialization=False)
    return {"z.pt": out.getvalue(), "old.pt": old.getvalue()}


def tensors() -> Files:
    return {"z.safetensors": safetensors.numpy.save({"z": z(), "labels": np.arange(24) % 3})}


def table() -> Files:
    out = io.BytesIO()
    pq.write_table(pa.table({"z": [row.tolist() for row in z()], "label": [f"c{i % 3}" for i in range(24)]}), out)
    return {"z.parquet": out.getvalue()}


def csv() -> Files:
    rows = [",".join([*map(str, row), str(i % 3)]) for i, row in enumerate(z().tolist())]
    return {"z.csv": ("a,b,c,d,label\n" + "\n".join(rows) + "\n").encode()}


def images_npz() -> Files:
    out = io.BytesIO()
    np.savez(out, images=written.noise(6, 8, 8, 3), labels=np.arange(6) % 3)
    return {"a.npz": out.getvalue()}


def images_npy() -> Files:
    out = io.BytesIO()
    np.save(out, written.noise(6, 8, 8, 3))
    return {"a.npy": out.getvalue()}


def images_parquet() -> Files:
    out = io.BytesIO()
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.array([{"bytes": written.encoded(p), "path": None} for p in written.noise(6, 8, 8, 3)], kind)
    pq.write_table(pa.table({"image": column, "label": pa.array([0, 1, 2] * 2)}), out)
    return {"a.parquet": out.getvalue()}


def images_folder() -> Files:
    some = written.noise(4, 8, 8, 3)
    return {f"set/train/{'ab'[i % 2]}/{i}.{form}": written.encoded(p, kind) for i, (p, (form, kind)) in enumerate(
        zip(some, [("png", "PNG"), ("jpg", "JPEG"), ("gif", "GIF"), ("webp", "WEBP")], strict=True)
    )}  # fmt: skip


def idx() -> Files:
    pixels, labels = written.idx(written.noise(6, 28, 28)), written.idx(np.arange(6, dtype=np.uint8))
    folder = "root/mnist/"
    test = {f"{folder}t10k-images-idx3-ubyte": pixels, f"{folder}t10k-labels-idx1-ubyte": labels}
    return {
        f"{folder}train-images-idx3-ubyte.gz": gzip.compress(pixels),
        f"{folder}train-labels-idx1-ubyte": labels,
        **test,
    }


def cifar(packed: bool) -> Callable[[], Files]:
    def files() -> Files:
        out, rows = io.BytesIO(), written.noise(3, 3072)
        batch = pickle.dumps({b"data": rows, b"labels": [0, 1, 2]}, protocol=2)
        names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
        if not packed:
            return {f"root/cifar10/cifar-10-batches-py/{name}": batch for name in names}
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name in names:
                member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
                member.size = len(batch)
                tar.addfile(member, io.BytesIO(batch))
        return {"root/cifar10/cifar-10-python.tar.gz": out.getvalue()}

    return files


def svhn() -> Files:
    out = io.BytesIO()
    savemat(out, {"X": written.noise(32, 32, 3, 4), "y": np.array([[1], [2], [10], [3]], np.uint8)})
    return {"root/svhn/train_32x32.mat": out.getvalue()}


def settings() -> Files:
    return {"a.yaml": as_yaml(configure()).encode()}


def in_yaml(content: bytes, changes: list[change.Edit]) -> bytes:
    tree = change.in_tree(configure().as_dict(), changes)
    return json.dumps(tree).encode()  # JSON is YAML, and says every value that YAML may


@cache
def run() -> Files:
    """A finished run on digits, as its folder holds it."""
    return _trained({"images": 64, "batch": 32, "epochs": 1, "monitor": 0, "encoder.widths": [4], "test_images": 0})


def _trained(chosen: Mapping[str, object]) -> Files:
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        known = {k: v for k, v in chosen.items() if k != "test_images"}
        train(configure(known), Runtime(out=out, quiet=True))
        return {f"run/{p.name}": p.read_bytes() for p in out.iterdir() if p.is_file() and p.name != ".lock"}


def first(name: str, files: Callable[[], Files]) -> Callable[[], Files]:
    """The same files, this one to be damaged."""
    return lambda: {name: files()[name], **files()}


def evaluating(folder: Path) -> list[str]:
    return ["evaluate", str(folder / "run"), "--probe", "knn", "--json", str(folder / "out.json")]


@cache
def searchable() -> Files:
    """What `encode` wrote of three images, the run that embedded them, and an image to ask with."""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as place:
        files = {**run(), **{f"{i}.png": written.encoded(p) for i, p in enumerate(written.noise(3, 8, 8, 3))}}
        for name, content in files.items():
            (Path(place) / name).parent.mkdir(exist_ok=True)
            (Path(place) / name).write_bytes(content)
        images = [f"{place}/{i}.png" for i in range(3)]
        assert main(["encode", f"{place}/run", *images, "--out", f"{place}/e.npz"]) == 0
        return {"e.npz": (Path(place) / "e.npz").read_bytes(), **files}


def searching(folder: Path) -> list[str]:
    asked = ["search", str(folder / "run"), str(folder / "0.png"), "--images", str(folder / "e.npz")]
    return [*asked, "--json", str(folder / "out.json")]


def resuming(folder: Path) -> list[str]:
    """The same command line goes on from what is in the folder; its result is not there."""
    (folder / "run/result.json").unlink(missing_ok=True)
    words = ["--images", "64", "--batch", "32", "--epochs", "1", "--monitor", "0", "--encoder.widths", "[4]"]
    return ["train", *words, "--quiet", "--out", str(folder / "run"), "--resume"]


@cache
def study() -> Files:
    about = About("entropy", "smoke", "digits", "isotherm study entropy --scale smoke")
    grid = points.expand(find.load("entropy"), "smoke")
    records = [
        Record(
            p.arm, p.varied, p.config.seed, p.config.key, dict.fromkeys(("knn", "linear", "uniformity"), 0.5), 1.0,
            p.config.as_dict(), Path("runs") / p.config.key, groups=tuple(p.measure),
        )
        for p in grid
    ]  # fmt: skip
    return {"s/records.jsonl": as_lines(records).encode(), "s/study.json": json.dumps(about.as_dict()).encode()}


def reporting(folder: Path) -> list[str]:
    return ["report", str(folder / "s")]


@cache
def model() -> Files:
    import tempfile  # noqa: PLC0415

    words = ["the", "cat", "sits", "on", "a", "mat", "and", "sees", "one", "red", "bird", "near", "an", "old", "tree"]
    sentences = [" ".join(words[i:] + words[:i]) for i in range(len(words))]
    with tempfile.TemporaryDirectory() as place:
        encoder = text.small(text.train_tokenizer(sentences, 300), width=16, layers=1, heads=2)
        encoder.save(Path(place))
        return {f"m/{p.relative_to(place)}": p.read_bytes() for p in sorted(Path(place).rglob("*")) if p.is_file()}


def loading(folder: Path) -> Callable[[], object]:
    return lambda: text.pretrained(f"hf:{folder / 'm'}").encode(["the cat"])


def corpus(name: str, content: bytes) -> Target:
    ways: tuple[Way, ...] = (change.damaged,)
    if name.endswith(".gz"):
        content, ways = gzip.compress(content), (change.damaged, change.in_gzip)

    def use(folder: Path) -> Callable[[], object]:
        def call() -> object:
            sentences = corpora.read(folder / name)
            return sentences.texts(range(len(sentences)))

        return call

    return Target(f"corpus {name}", lambda: {name: content}, use, ways)


LINES = "a cat sits\nit rains\nthe sun shines\n" * 4
OBJECTS = "".join(json.dumps({"text": line}) + "\n" for line in LINES.splitlines())
STSB = "".join(f"g\tf\ty\t{i}\t{i % 5}.0\ta cat\ta dog {i}\n" for i in range(12))
METRICS = "".join(json.dumps({"step": i, "epoch": i, "loss_mean": 0.5, "knn": 0.3}) + "\n" for i in range(1, 9))
ARCHIVE = (change.damaged, change.in_zip)
TAR = (change.damaged, change.in_tar, change.in_tar_heads)

TARGETS = (
    Target("npy", npy, inspecting("z.npy"), outputs=("out.json",)),
    Target("npz", npz(np.savez), inspecting("z.npz"), ARCHIVE, ("out.json",)),
    Target("npz packed", npz(np.savez_compressed), inspecting("z.npz"), ARCHIVE, ("out.json",)),
    Target("pt", pt, inspecting("z.pt"), ARCHIVE, ("out.json",)),
    Target("pt old", first("old.pt", pt), inspecting("old.pt"), outputs=("out.json",)),
    Target("safetensors", tensors, inspecting("z.safetensors"), (change.damaged, change.in_safetensors), ("out.json",)),
    Target("parquet", table, inspecting("z.parquet"), outputs=("out.json",)),
    Target("csv", csv, inspecting("z.csv"), outputs=("out.json",)),
    Target("images npy", images_npy, showing("arrays:HERE/a.npy"), outputs=("out.png",)),
    Target("images npz", images_npz, showing("arrays:HERE/a.npz"), ARCHIVE, ("out.png",)),
    Target("images parquet", images_parquet, showing("parquet:HERE/a.parquet"), outputs=("out.png",)),
    Target("images folder", images_folder, showing("folder:HERE/set"), outputs=("out.png",)),
    Target("idx", idx, showing("mnist"), (change.damaged, change.in_gzip), ("out.png",)),
    Target("cifar archive", cifar(True), showing("cifar10"), (change.damaged, change.in_tar), ("out.png",)),
    Target("cifar pickle", cifar(False), showing("cifar10"), outputs=("out.png",)),
    Target("svhn", svhn, showing("svhn"), outputs=("out.png",)),
    Target("shards", lambda: tar_shards.images("cls"), showing("shards:HERE/s"), TAR, ("out.png",)),
    Target("shards labelled in json", lambda: tar_shards.images("json"), showing("shards:HERE/s"), TAR, ("out.png",)),
    Target("a shard's index", tar_shards.indexed, showing("shards:HERE/s"), outputs=("out.png",)),
    Target("shards of pairs", tar_shards.captioned, tar_shards.taking_pairs, TAR),
    Target("settings", settings, lambda f: ["train", "--config", str(f / "a.yaml"), "--print_config"],
           (change.damaged, in_yaml), cost=2),
    Target("checkpoint", first("run/checkpoint.pt", run), evaluating, ARCHIVE, ("out.json",), cost=4),
    Target("a run's settings", first("run/config.yaml", run), evaluating, (change.damaged, in_yaml), ("out.json",), 4),
    Target("resumed", first("run/checkpoint.pt", run), resuming, ARCHIVE, cost=4),
    Target("resumed metrics", first("run/metrics.jsonl", run), resuming,
           (change.damaged, change.in_json_lines), cost=4),
    Target("encoder", first("run/encoder.safetensors", run),
           lambda f: lambda: load_encoder(f / "run"), (change.damaged, change.in_safetensors)),
    Target("encoder's card", first("run/encoder.json", run), lambda f: lambda: load_encoder(f / "run"),
           (change.damaged, change.in_json)),
    Target("embeddings to search", searchable, searching, ARCHIVE, ("out.json",), cost=2),
    Target("records", study, lambda f: lambda: [(r.config, r.name) for r in read(f / "s")],
           (change.damaged, change.in_json_lines)),
    Target("report", study, reporting, (change.in_json_lines, change.damaged), cost=8),
    Target("about", first("s/study.json", study), reporting, (change.damaged, change.in_json), cost=8),
    Target("metrics", lambda: {"metrics.jsonl": METRICS.encode()}, lambda f: lambda: training_of(f),
           (change.damaged, change.in_json_lines)),
    Target("a model's settings", first("m/config.json", model), loading, (change.damaged, change.in_json), cost=4),
    Target("a model's weights", first("m/model.safetensors", model), loading,
           (change.damaged, change.in_safetensors), cost=4),
    Target("a model's tokenizer", first("m/tokenizer.json", model), loading, (change.damaged, change.in_json), cost=4),
    corpus("a.txt", LINES.encode()),
    corpus("a.txt.gz", LINES.encode()),
    corpus("a.csv", b"sent0,sent1\n" + b'"a, cat",dog\nrain,"the ""sun"""\n' * 5),
    corpus("a.jsonl", OBJECTS.encode()),
    Target("senteval", lambda: {"STS/STSBenchmark/sts-dev.csv": STSB.encode()},
           lambda f: lambda: (rated(f, "STS-B"), classified(f, "MR"))),
)  # fmt: skip
