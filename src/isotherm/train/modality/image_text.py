"""A run's image–text pairs: what it learns from, what it is judged on, two towers, and the features of locked ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from isotherm import files, world
from isotherm.data.captioned import Captioned, broken_note
from isotherm.data.loaders.pairs import PairLoader
from isotherm.data.pairs import is_pairs, load_pairs
from isotherm.data.parts import NoSplit
from isotherm.encoders import text
from isotherm.encoders.efficientnet import EFFICIENTNET
from isotherm.encoders.fitting import fitted
from isotherm.encoders.towers import Locked, Towers
from isotherm.measures.catalogue import in_groups
from isotherm.measures.measure import take
from isotherm.methods import Network
from isotherm.methods.build import METHODS
from isotherm.methods.clip import PairNetwork
from isotherm.streams import uniforms
from isotherm.train.config import Config
from isotherm.train.modality.images import ENCODER, encoder_of
from isotherm.train.modality.modality import Weights, provenance
from isotherm.train.modality.sentences import MODEL, TAUGHT, TOKENIZER, export_text
from isotherm.train.networks import networks
from isotherm.train.outcome import Learnt
from isotherm.train.pair_embeddings import (
    embed_images,
    embed_pixels,
    embed_texts,
    locked_captions,
    locked_images,
    pair_subject,
)
from isotherm.train.state import export_encoder
from isotherm.views import Recipe, recipe

NOT_FOR_PAIRS = (
    *("imbalance", "ratio", "randbit", "digits", "crop_scale", "small_crops", "small_size", "small_scale"),
)
USUAL_RECIPE = "clip"
LARGE = 224
"""The edge of a square that nobody named."""


@dataclass(frozen=True, eq=False)
class OpenedTowers:
    """Two trained towers, without the data they learnt from, and how to embed images and texts with them."""

    out: Path
    config: Config
    network: PairNetwork
    recipe: Recipe

    @property
    def size(self) -> int:
        """The edge of an image as its tower takes it."""
        return _size(self.config, self.recipe)

    def embed_pixels(self, pixels: Tensor) -> Tensor:
        """float32 (N, width): embeddings of pixels, uint8 (N, 3, H, W)."""
        return embed_pixels(self.network, pixels, self.recipe)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """float32 (N, width): embeddings of texts."""
        return embed_texts(self.network, texts)


@dataclass(frozen=True, eq=False)
class OpenedPairs(OpenedTowers):
    """A trained run on pairs: its towers and its data."""

    pairs: Captioned
    test: Captioned | None

    def embed_images(self, images: Captioned) -> Tensor:
        """float32 (N, width): embeddings of images as they are, without those that are broken."""
        return embed_images(self.network, images, self.recipe)[0]


@dataclass(frozen=True, eq=False)
class ImageTextModality:
    """What a run learns from and is judged on, and how it is shown."""

    config: Config
    pairs: Captioned
    recipe: Recipe
    tokenizer: Any = None
    """The run's own, if its text encoder has none."""

    noun: ClassVar[str] = "pairs"
    method: ClassVar[str] = "clip"
    criterion: ClassVar[str] = "mean_recall"
    own_files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    @classmethod
    def reads(cls, data: str, encoder: str | None, method: str | None = None) -> bool:
        return is_pairs(data) if method is None else bool(method in METHODS and METHODS[method].text_encoder)

    @classmethod
    def of(cls, config: Config, folder: Path | None = None) -> ImageTextModality:
        """The pairs of a configuration; a tokenizer made of their captions is found in `folder` again."""
        defaults = Config()
        for name in NOT_FOR_PAIRS:
            if getattr(config, name) != getattr(defaults, name):
                raise ValueError(f"{name} is for images without captions; {config.data} is learnt from as pairs.")
        view = view_of(config)
        pairs = pairs_of(config, config.split, view.views[0].size)
        given = cls(config, pairs, view)
        if config.text_encoder.name != text.SMALL:
            return given
        return replace(given, tokenizer=_tokenizer(given, folder))

    @classmethod
    def reopen(cls, out: Path, config: Config, weights: Weights) -> OpenedPairs:
        given = cls.of(config, out)
        torch.manual_seed(config.seed)  # a locked tower that nobody trained is as it was
        return given.opened(out, fitted(lambda: networks(config, given.encoder())[0], weights))

    @property
    def ids(self) -> Tensor:
        return self.pairs.ids

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of the data; at the end of a run, also what it found broken."""
        notes = list(self.pairs.every_note)
        if (judged := self.__dict__.get("test")) is not None:  # read already
            notes += [f"{self.config.test}: {note}" for note in broken_note(judged.broken)]
        few = int((self.pairs.counts < self.views - 1).sum())
        if few:
            notes.append(f"{few:,} images have fewer than {self.views - 1} captions: some are shown more than once")
        lock = self.config.method.settings.get("lock", "none")
        if lock in ("image", "both") and self.config.recipe is not None:
            notes.append(
                f"the image tower is locked: its features are those of whole images, not of '{self.recipe.name}'"
            )
        if self.config.encoder.name == EFFICIENTNET and not self.recipe.mean:
            notes.append(f"{EFFICIENTNET} was trained on pixels from −1 to 1: --normalize inception")
        return tuple(notes)

    @property
    def classes(self) -> int:
        return 0

    @property
    def hard_negatives(self) -> bool:
        return False

    @property
    def views(self) -> int:
        """An image and its captions."""
        return self.config.views or 2

    @property
    def small_crops(self) -> int:
        return 0

    @property
    def size(self) -> int:
        """The edge of an image as its tower takes it."""
        return _size(self.config, self.recipe)

    @cached_property
    def test(self) -> Captioned | None:
        """The part to judge on, if there is one."""
        if self.config.test == self.config.split:
            return None
        try:
            return pairs_of(self.config, self.config.test, self.size)
        except NoSplit:
            if self.config.test != "test":
                raise
            return None

    def encoder(self) -> Towers:
        """Both towers, with new weights or pretrained ones."""
        return towers_of(self.config, self.size, self.tokenizer)

    def loader(self, network: Network, device: torch.device, prefetch: int) -> PairLoader:
        assert isinstance(network, PairNetwork)
        towers, pairs, seed = network.encoder, self.pairs, self.config.seed
        by_image = locked_images(towers, pairs, self.recipe, everyone=True)
        by_caption = locked_captions(towers, pairs, everyone=True)
        encoder: Any = towers.text_encoder

        def image(indices: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
            if by_image is not None:
                indices = pairs.whole(indices.clone())
                return by_image[indices], indices
            pixels, indices = pairs.decoded(indices)
            (view,) = self.recipe(pixels.to(device), pairs.ids[indices].to(device), seed=seed, epoch=epoch)
            return view, indices

        def captions(numbers: Tensor) -> list[Tensor]:
            if by_caption is not None:
                return [by_caption[column] for column in numbers.T]
            if not len(numbers):
                return [torch.zeros(0, 1, dtype=torch.int64) for _ in range(numbers.shape[1])]
            tokens = encoder.padded(encoder.tokens(pairs.captions(numbers)))
            return list(tokens.view(*numbers.shape, -1).unbind(1))

        return PairLoader(
            pairs,
            image,
            captions,
            self.config.batch,
            self.views - 1,
            seed,
            device=device,
            prefetch=prefetch,
            rank=world.rank(),
            world=world.size(),
        )

    def monitor(self, network: Network, at_most: int | None = None) -> dict[str, float]:
        """Retrieval on the part to judge on, how the two modalities lie, and the geometry of the images."""
        assert isinstance(network, PairNetwork)
        judged = self.pairs if self.test is None else self.test
        subject = pair_subject(network, some(judged, at_most, self.config.seed), self.recipe)
        return take(in_groups(["retrieval", "two modalities", "geometry"]), subject)

    def learnt(self, network: Network) -> Learnt | None:
        """Not measured: there are no labels."""

    def check(self) -> None:
        """The part to judge on, read now."""
        _ = self.test

    def keep(self, folder: Path) -> None:
        """The tokenizer, if it was made of these captions."""
        if self.tokenizer is not None and not (folder / TOKENIZER).exists():
            files.write_text(folder / TOKENIZER, self.tokenizer.backend_tokenizer.to_str())

    def fingerprint(self) -> str:
        return self.pairs.fingerprint()

    def data(self) -> str:
        return "-".join(part.fingerprint() for part in (self.pairs, self.test) if part is not None)

    def export(self, out: Path, trained: nn.Module) -> None:
        """The image tower as every image encoder is exported, the text tower as a folder that other libraries load."""
        assert isinstance(trained, Towers)
        card = {
            "encoder": self.config.encoder.as_dict(),
            "channels": 3,
            "size": self.size,
            "width": trained.width,
            "normalize": {"mean": list(self.recipe.mean), "std": list(self.recipe.std)},
            **provenance(self.config),
        }
        export_encoder(out / ENCODER, trained.image_encoder, card)
        if not isinstance(trained.text, Locked):
            export_text(out / MODEL, trained.text_encoder)

    def opened(self, out: Path, network: Network) -> OpenedPairs:
        assert isinstance(network, PairNetwork)
        try:
            test = self.test
        except (ValueError, FileNotFoundError):
            test = None
        return OpenedPairs(out, self.config, network.eval(), self.recipe, self.pairs, test)


def reopen_towers(out: Path, config: Config, weights: Weights) -> OpenedTowers:
    """The towers of a run in its folder; what it learnt from need not be there."""
    shown = view_of(config)
    tokenizer = text.read_tokenizer(out / TOKENIZER) if (out / TOKENIZER).exists() else None
    torch.manual_seed(config.seed)  # a locked tower that nobody trained is as it was
    network = fitted(lambda: networks(config, towers_of(config, _size(config, shown), tokenizer))[0], weights)
    assert isinstance(network, PairNetwork)
    return OpenedTowers(out, config, network.eval(), shown)


def towers_of(config: Config, size: int, tokenizer: Any = None) -> Towers:
    """Both towers, with new weights or pretrained ones."""
    image = encoder_of(config.encoder, 3, size)
    return Towers(image, text_encoder_of(config, tokenizer), config.method.settings.get("lock", "none"))


def _size(config: Config, shown: Recipe) -> int:
    """The edge of an image as its tower takes it: the view's, or that of the square it is decoded to."""
    return shown.views[0].size or int(config.data_options.get("size", LARGE))


def view_of(config: Config) -> Recipe:
    """How an image is shown."""
    return recipe(config.recipe or USUAL_RECIPE, 1, config.size, config.normalize)


def pairs_of(config: Config, split: str, size: int | None) -> Captioned:
    """One part of the pairs; only the part learnt from is made smaller."""
    pairs = load_pairs(config.data, split, **{"size": size or LARGE, **config.data_options})
    if split != config.split or config.images is None or config.images == len(pairs):
        return pairs
    if config.images > len(pairs):
        raise ValueError(f"{pairs.name} has {len(pairs)} images; {config.images} are asked for.")
    return some(pairs, config.images, config.seed, f"{config.images} of {len(pairs)} images, drawn")


def some(pairs: Captioned, at_most: int | None, seed: int, *notes: str) -> Captioned:
    """At most so many images, a seeded choice, in order."""
    if at_most is None or at_most >= len(pairs):
        return pairs
    keys = uniforms(pairs.ids, 1, seed=seed, epoch=0, view=-2)[:, 0]
    return pairs.subset(keys.argsort(stable=True)[:at_most].sort().values, *notes)


def text_encoder_of(config: Config, tokenizer: Any = None) -> text.TextEncoder:
    name, settings = config.text_encoder.name, config.text_encoder.settings
    if name == text.SMALL:
        return text.small(tokenizer, **{k: v for k, v in settings.items() if k != "vocabulary"})
    return text.pretrained(name, **settings)


def _tokenizer(given: ImageTextModality, folder: Path | None) -> Any:
    """The one that is kept in the run's folder, or one that is made of the captions."""
    stored = None if folder is None else folder / TOKENIZER
    if stored is not None and stored.exists():
        return text.read_tokenizer(stored)
    numbers, _ = given.pairs.numbers()
    return text.train_tokenizer(given.pairs.captions(numbers[:TAUGHT]), given.config.text_encoder["vocabulary"])
