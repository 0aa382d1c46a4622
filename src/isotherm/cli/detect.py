"""`isotherm detect`: encoders inside detectors."""

from __future__ import annotations

import argparse
from pathlib import Path

from isotherm.cli import terminal, transfer
from isotherm.files import STDOUT, check_places, put_json

DETECT = """
fine-tune encoders inside Faster R-CNN or Mask R-CNN; AP50, AP, AP75

Each encoder, a ResNet, is trained further as a detector with the same seeds, and asked about the test part by COCO's
metrics. On VOC and COCO with the schedule of the papers (CACR C.2, as MoCo): R50-C4, 24,000 and 90,000 steps; on scenes
that the project draws, digits with boxes and masks, with one of minutes. The first encoder is compared with each of
the others. Needs torchvision and pycocotools (extra vision). The same line with --out goes on after an interruption.

isotherm detect runs/first random:runs/first --on scenes --seeds 0,1,2 --out runs/detect
isotherm detect runs/first --on scenes:imagenette --masks
isotherm detect runs/resnet50 --on voc:VOCdevkit --out runs/voc --json voc.json
isotherm detect weights.pth --arch resnet50 --on coco:coco --detector fpn --out runs/coco
"""


def add(commands: terminal.Commands) -> None:
    detecting = terminal.described(commands, "detect", DETECT)
    detecting.add_argument("encoders", nargs="+", metavar="ENCODER", help="runs, random:RUN, torchvision:NAME, weights")
    detecting.add_argument(
        "--on", required=True, metavar="D", help="scenes, scenes:DATA (drawn on its images), voc:PATH, coco:PATH"
    )
    detecting.add_argument("--detector", metavar="N", help="c4 or fpn (c4; on scenes fpn)")
    detecting.add_argument(
        "--masks", action=argparse.BooleanOptionalAction, default=None, help="Mask R-CNN (on coco; else no)"
    )
    detecting.add_argument("--steps", type=terminal.positive, metavar="N", help="of training (the paper's)")
    detecting.add_argument("--batch", type=terminal.positive, metavar="N", help="images per step (16; on scenes 8)")
    detecting.add_argument("--lr", type=float, metavar="R", help="learning rate (0.02, in proportion to the batch)")
    detecting.add_argument("--seeds", default="0", metavar="N,…", help="of new layers and draws (0)")
    detecting.add_argument("--images", type=terminal.positive, metavar="N", help="training images at most")
    detecting.add_argument("--tested", type=terminal.positive, metavar="N", help="test images at most")
    detecting.add_argument("--arch", metavar="N", help="the network of a file of weights: resnet50, …")
    detecting.add_argument(
        "--size",
        type=terminal.positive,
        metavar="N",
        help="images that random:resnet50 is built for: above 32, usual stem",
    )
    detecting.add_argument("--normalize", metavar="N", help="cifar10, imagenet, … (what the encoder says)")
    detecting.add_argument("--out", type=Path, metavar="DIR", help="keep what is finished here, and go on from it")
    detecting.add_argument("--trust-code", action="store_true", help="run code that a run names")
    detecting.add_argument("--html", type=terminal.file, metavar="OUT", help="write a page")
    terminal.add_json(detecting)
    detecting.set_defaults(run=_detect)


def _detect(arguments: argparse.Namespace) -> None:
    console = terminal.console(stderr=arguments.json == STDOUT)
    with terminal.mistakes(), terminal.progress(console) as note:
        check_places(arguments.html, arguments.json)
        from isotherm.evaluate.detection.assess import Plan, detect, kind_of
        from isotherm.evaluate.detection.schedules import SCHEDULES, changed
        from isotherm.evaluate.models import Wanted

        trust(arguments)
        schedule = changed(
            SCHEDULES[kind_of(arguments.on)],
            *(arguments.detector, arguments.masks, arguments.steps, arguments.batch, arguments.lr),
        )
        seeds = [seed.strip() for seed in arguments.seeds.split(",") if seed.strip()]
        if not all(seed.isdecimal() for seed in seeds):
            raise ValueError(f"--seeds must be whole numbers with commas between, got '{arguments.seeds}'.")
        plan = Plan(
            tuple(arguments.encoders),
            arguments.on,
            schedule,
            tuple(dict.fromkeys(int(seed) for seed in seeds)),
            arguments.images,
            arguments.tested,
            arguments.out,
        )
        result = detect(plan, Wanted(arguments.arch, arguments.size, arguments.normalize), note)
        if arguments.html is not None:
            transfer.page("Detection", result.tables(), result.lines()).write(arguments.html)
        if arguments.json is not None:
            put_json(arguments.json, result.as_dict())
    transfer.show(console, result.tables(), result.lines())
    terminal.written(console, arguments)


def trust(arguments: argparse.Namespace) -> None:
    if arguments.trust_code:
        from isotherm import doors

        doors.allow(doors.EVERYTHING)
