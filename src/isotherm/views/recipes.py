"""The papers' augmentation recipes by name: how the views of an image are drawn.

``recipe("simclr-cifar", views=3)(pixels, ids, seed=0, epoch=4)`` gives three float views of uint8 images. Every
image's parameters come from (seed, epoch, view, id) alone (`chance`), each from its own draw, so that switching one
operation off leaves the others as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isotherm.checks import did_you_mean
from isotherm.streams import permutation, uniforms
from isotherm.views import operations as do

Blur = Callable[[Tensor, Tensor, int], Tensor]
DRAWS = 18
LARGEST = 4096
MOST = 1000  # views of an image; a list of them is made
STATISTICS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "stl10": ((0.4409, 0.4279, 0.3868), (0.2683, 0.2610, 0.2687)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "inception": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""Mean and standard deviation of the channels, as CACR (arXiv:2105.03746), Alg. 1 and 2, normalize with; "inception" is
what Inception and EfficientNet-Lite were trained with: −1 to 1."""


@dataclass(frozen=True)
class View:
    """How one view is drawn. Probabilities and ranges; 0 switches an operation off."""

    size: int | None = None
    """Edge of the view in pixels; None: the image's own."""
    scale: tuple[float, float] | None = (0.2, 1.0)
    """Range of the crop's area; None: no crop."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    """Strength of brightness, contrast, saturation and hue."""
    jitter_chance: float = 0.8
    gray: float = 0.2
    blur: float = 0.0
    sigma: tuple[float, float] = (0.1, 2.0)
    solarize: float = 0.0
    rotate: float = 0.0
    """Largest angle in degrees."""
    shift: float = 0.0
    """Largest move as a fraction of the size."""
    zoom: float = 0.0
    """Largest relative change of size."""

    def draw(self, pixels: Tensor, u: Tensor, order: Sequence[int]) -> Tensor:
        """This view of uint8 images, from (N, DRAWS) uniform numbers."""
        size = (self.size or pixels.shape[2], self.size or pixels.shape[3])
        if self.scale is not None or self.flip or size != tuple(pixels.shape[2:]):
            x = do.resized_crop(pixels, self._boxes(pixels, u), size, u[:, 4] < self.flip)
        else:
            x = do.unit_range(pixels)
        return self.change(x, u, order)

    def change(self, x: Tensor, u: Tensor, order: Sequence[int], blur: Blur = do.gaussian_blur) -> Tensor:
        """This view of images that are cropped and mirrored already, float in [0, 1], from the same numbers."""
        size = (x.shape[2], x.shape[3])
        if self.rotate or self.shift or self.zoom:
            angle = (2 * u[:, 14] - 1) * math.radians(self.rotate)
            zoom = 1 + (2 * u[:, 17] - 1) * self.zoom
            x = do.affine(x, angle, (2 * u[:, 15:17] - 1) * self.shift, zoom, size)
        if any(self.jitter) and self.jitter_chance:
            x = self._jittered(x, u, order)
        if self.gray:
            x = do.to_gray(x, u[:, 10] < self.gray)
        if self.blur:
            radius = max(1, round(0.05 * size[0]))
            sigma = self.sigma[0] + (self.sigma[1] - self.sigma[0]) * u[:, 12]
            x = do.changed(x, u[:, 11] < self.blur, lambda part, each: blur(part, each, radius), sigma)
        if self.solarize:
            x = do.solarize(x, u[:, 13] < self.solarize)
        return x

    def _boxes(self, pixels: Tensor, u: Tensor) -> Tensor:
        height, width = pixels.shape[2:]
        if self.scale is None:
            whole = do.constant((0.0, 0.0, float(height), float(width)), pixels.device)
            return whole.expand(len(pixels), 4)
        return do.crop_boxes(u[:, :4], height, width, self.scale, self.ratio)

    def _jittered(self, x: Tensor, u: Tensor, order: Sequence[int]) -> Tensor:
        """The four colour changes in this order; images that are not chosen get neutral ones."""
        changes_colour = u[:, 5] < self.jitter_chance
        changes = (do.brightness, do.contrast, do.saturation, do.hue)
        for i in order:
            strength = self.jitter[i]
            if strength:
                neutral = 0.0 if i == 3 else 1.0
                low = -strength if i == 3 else max(0.0, 1 - strength)
                high = neutral + strength
                x = changes[i](x, torch.where(changes_colour, low + (high - low) * u[:, 6 + i], neutral))
        return x


@dataclass(frozen=True)
class Recipe:
    """Views of an image, and where they come from."""

    name: str
    about: str
    views: tuple[View, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    small: tuple[View, ...] = ()
    """Small crops, drawn after the views; they ask and never answer (`multi_crop`)."""

    def __call__(self, pixels: Tensor, ids: Tensor, *, seed: int = 0, epoch: int = 0) -> list[Tensor]:
        """The views and small crops of uint8 images (N, C, H, W): float tensors, on the images' device."""
        if pixels.ndim != 4 or pixels.dtype != torch.uint8:
            raise ValueError(f"{self.name} takes uint8 images (N, C, H, W), got {pixels.dtype} {tuple(pixels.shape)}.")
        if ids.shape != (len(pixels),):
            raise ValueError(f"{self.name} needs one id an image, shape ({len(pixels)},); got {tuple(ids.shape)}.")
        order = permutation(4, seed=seed, epoch=epoch, view=0)
        by_number: dict[int, Tensor] = {}
        every = (*self.views, *self.small)
        with torch.autocast(pixels.device.type, enabled=False):  # the same views, whatever surrounds them
            for view in dict.fromkeys(every):  # views of one kind are drawn together
                numbers = [i for i, v in enumerate(every) if v == view]
                u = torch.cat([uniforms(ids, DRAWS, seed=seed, epoch=epoch, view=i) for i in numbers])
                images = pixels.repeat(len(numbers), 1, 1, 1)
                parts = zip(_parts(images), _parts(u, like=images), strict=True)
                batches = [self.normalized(view.draw(p, n, order)) for p, n in parts]
                together = batches[0] if len(batches) == 1 else torch.cat(batches)
                by_number |= dict(zip(numbers, together.tensor_split(len(numbers)), strict=True))
        return [by_number[i] for i in range(len(every))]

    def from_crops(
        self, crops: Sequence[Tensor], ids: Tensor, *, seed: int = 0, epoch: int = 0, threads: Executor | None = None
    ) -> list[Tensor]:
        """The same of crops taken from the whole images with `crop_numbers`: uint8 (N, C, size, size) each.

        On a processor they are worked on in parts, at once by as many `threads` as there are. A part is the same
        whoever makes it.
        """
        order = permutation(4, seed=seed, epoch=epoch, view=0)
        views, parts = [], []
        for number, (view, crop) in enumerate(zip((*self.views, *self.small), crops, strict=True)):
            u = uniforms(ids, DRAWS, seed=seed, epoch=epoch, view=number)
            x = torch.empty(crop.shape, dtype=torch.float32, device=crop.device)
            parts += [(view, *part) for part in zip(_parts(x), _parts(crop, like=x), _parts(u, like=x), strict=True)]
            views.append(x)

        def make(part: tuple[View, Tensor, Tensor, Tensor]) -> None:
            self._changed_crops(*part, order)

        for _ in (threads.map if threads else map)(make, parts):
            pass
        return views

    def _changed_crops(self, view: View, out: Tensor, crops: Tensor, u: Tensor, order: Sequence[int]) -> None:
        with torch.autocast(out.device.type, enabled=False):
            changed = view.change(out.copy_(crops).mul_(1 / 255), u, order, do.blur_in_blocks)
            changed = self.normalized(changed)
            if changed.data_ptr() != out.data_ptr():  # most operations work in place
                out.copy_(changed)

    def crop_numbers(self, ids: Tensor, tries: int, *, seed: int = 0, epoch: int = 0) -> Tensor:
        """What the crops of each image are drawn from, (N, views and small crops, 5 + 4·(tries − 1)).

        Area, aspect, top, left and mirror, as `View.draw` takes them; then the first four for each further try.
        """
        count = DRAWS + 4 * (tries - 1)
        every = range(len(self.views) + len(self.small))
        u = torch.stack([uniforms(ids, count, seed=seed, epoch=epoch, view=i) for i in every], 1)
        return torch.cat([u[:, :, :5], u[:, :, DRAWS:]], 2)

    def plain(self, pixels: Tensor, size: int | None = None) -> Tensor:
        """The images themselves, resized if need be and normalized: what a probe sees."""
        view = View(size=size, scale=None, flip=0, jitter=(0, 0, 0, 0), gray=0)
        none = torch.zeros(len(pixels), DRAWS, device=pixels.device)
        with torch.autocast(pixels.device.type, enabled=False):
            return self.normalized(view.draw(pixels, none, ()))

    def normalized(self, x: Tensor) -> Tensor:
        if not self.mean:
            return x
        if len(self.mean) not in (1, x.shape[1]):
            raise ValueError(f"{self.name} normalizes {len(self.mean)} channels, the images have {x.shape[1]}.")
        mean, std = (do.constant(v, x.device)[:, None, None] for v in (self.mean, self.std))
        return x.sub_(mean).div_(std)


AT_ONCE = 1 << 21
"""Numbers of an image batch worked on at once on a processor: bounds the buffers of `operations` (8 MB each)."""


def _parts(rows: Tensor, like: Tensor | None = None) -> Sequence[Tensor]:
    """On a processor, parts of a bounded size; elsewhere the whole."""
    of = rows if like is None else like
    if rows.device.type != "cpu":
        return (rows,)
    parts: tuple[Tensor, ...] = rows.split(max(1, AT_ONCE * len(of) // max(1, of.numel())))
    return parts


_SIMCLR = View(scale=(0.08, 1.0), jitter=(0.8, 0.8, 0.8, 0.2), blur=0.5)
_BYOL = View(scale=(0.08, 1.0), jitter=(0.4, 0.4, 0.2, 0.1))
_PAIR = (replace(_BYOL, blur=1.0), replace(_BYOL, blur=0.1, solarize=0.2))
RECIPES = {
    r.name: r
    for r in (
        Recipe("instdisc", "instance discrimination, Wang & Liu §5.1", (View(jitter=(0.4,) * 4, jitter_chance=1.0),)),
        Recipe(
            "instdisc-blur",
            "the same for large images with SimCLR's blur, Wang & Liu §5.1",
            (View(size=224, jitter=(0.4,) * 4, jitter_chance=1.0, blur=0.5),),
        ),
        Recipe("simclr", "SimCLR for large images", (replace(_SIMCLR, size=224),)),
        Recipe(
            "simclr-cifar",
            "SimCLR for small images: half the colour strength, no blur",
            (View(scale=(0.08, 1.0), jitter=(0.4, 0.4, 0.4, 0.1)),),
        ),
        Recipe("mocov2", "MoCo v2; CACR Alg. 2", (View(size=224, blur=0.5),)),
        Recipe("cacr-cifar", "CACR Alg. 1, CIFAR", (View(jitter=(0.4,) * 4, jitter_chance=1.0),)),
        Recipe(
            "stl10",
            "CACR Alg. 1, STL-10",
            (View(size=64, scale=(0.08, 1.0), jitter=(0.4,) * 4, jitter_chance=1.0),),
        ),
        Recipe("byol", "BYOL's two different views", tuple(replace(v, size=224) for v in _PAIR)),
        Recipe("mocov3", "MoCo v3 with a ViT: BYOL's pair", tuple(replace(v, size=224) for v in _PAIR)),
        Recipe(
            "mocov3-resnet",
            "MoCo v3 with a ResNet: the pair with crops of a fifth or more (its code, --crop-min=.2)",
            tuple(replace(v, size=224, scale=(0.2, 1.0)) for v in _PAIR),
        ),
        Recipe(
            "mnist-crop",
            "half of the image or more and nothing else: Chen & Li's MNIST (their notebook)",
            (View(scale=(0.5, 1.0), flip=0, jitter=(0, 0, 0, 0), gray=0),),
        ),
        Recipe(
            "multi-crop",
            "SwAV: two large crops and six small ones",
            (replace(_SIMCLR, size=224, scale=(0.14, 1.0)),),
            small=(replace(_SIMCLR, size=96, scale=(0.05, 0.14)),) * 6,
        ),
        Recipe(
            "dino",
            "DINO: BYOL's pair of large crops and eight small ones",
            tuple(replace(v, size=224, scale=(0.4, 1.0)) for v in _PAIR),
            small=(replace(_BYOL, size=96, scale=(0.05, 0.4), blur=0.5),) * 8,
        ),
        Recipe(
            "digits",
            # Without the change of brightness and contrast the amount of ink tells two views' origin, and training
            # makes kNN on the embedded digits worse than no training (LOG.md, 2026-11-16).
            "small turns, moves and zooms, more and less ink; no mirror",
            (
                View(
                    scale=None,
                    flip=0,
                    jitter=(0.5, 0.5, 0, 0),
                    jitter_chance=1.0,
                    gray=0,
                    rotate=15,
                    shift=0.1,
                    zoom=0.1,
                ),
            ),
        ),
        Recipe(
            "clip",
            "CLIP: a square crop of nine tenths or more (as open_clip has it) and nothing else",
            (View(size=224, scale=(0.9, 1.0), flip=0, jitter=(0, 0, 0, 0), gray=0),),
        ),
        Recipe("none", "the image itself", (View(scale=None, flip=0, jitter=(0, 0, 0, 0), gray=0),)),
    )
}


def recipe(
    name: str,
    views: int | None = None,
    size: int | None = None,
    normalize: str | tuple[Sequence[float], Sequence[float]] | None = None,
) -> Recipe:
    """A recipe by name, with this many views (2 by default), of this size, normalized for this set.

    A recipe with several kinds of views repeats them in turn. `normalize` is a name of `STATISTICS` or (mean, std).
    Small crops keep their number, and their size in proportion; `multi_crop` sets both.
    """
    if name not in RECIPES:
        raise ValueError(f"no recipe '{name}'{did_you_mean(name, RECIPES)}")
    base = RECIPES[name]
    count = max(2, len(base.views)) if views is None else views
    if count < 1:
        raise ValueError(f"a recipe gives 1 view or more, got {views}.")
    if count > MOST:
        raise ValueError(f"a recipe gives {MOST:,} views at most, got {count:,}.")
    kinds, small = [base.views[i % len(base.views)] for i in range(count)], list(base.small)
    if size is not None and not 1 <= size <= LARGEST:
        raise ValueError(f"the size of a view lies between 1 and {LARGEST} pixels, got {size}.")
    if size is not None:
        largest = max((v.size or size) for v in kinds)
        kinds, small = (
            [replace(v, size=max(1, round((v.size or largest) / largest * size))) for v in part]
            for part in (kinds, small)
        )
    mean, std = _statistics(normalize)
    return replace(base, views=tuple(kinds), small=tuple(small), mean=mean, std=std)


def _statistics(
    normalize: str | tuple[Sequence[float], Sequence[float]] | None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if normalize is None:
        return (), ()
    if isinstance(normalize, str):
        if normalize not in STATISTICS:
            raise ValueError(f"no channel statistics for '{normalize}'; there are: {', '.join(STATISTICS)}.")
        return STATISTICS[normalize]
    mean, std = (tuple(float(v) for v in part) for part in normalize)
    if len(mean) != len(std) or not all(math.isfinite(m) for m in mean) or not all(0 < s < math.inf for s in std):
        raise ValueError("mean and std must be equally many finite numbers, and std positive.")
    return mean, std
