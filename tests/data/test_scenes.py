"""Boxes and masks: drawn scenes, VOC's and COCO's layouts, and what is wrong in them, skipped and counted."""

import json

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from isotherm.data.images import Images
from isotherm.data.scenes import coco, drawn, voc
from isotherm.data.scenes.scene import Scene
from isotherm.data.sets import load


def test_a_drawn_scene_is_the_same_again_and_others_differ():
    once, again, other = (drawn.read("train", 3, seed=s) for s in (0, 0, 1))
    for i in range(3):
        assert torch.equal(once.take(i).pixels, again.take(i).pixels)
        assert torch.equal(once.take(i).boxes, again.take(i).boxes)
        assert not torch.equal(once.take(i).pixels, other.take(i).pixels)
    assert torch.equal(drawn.read("train", 1).take(0).pixels, once.take(0).pixels), "whatever the number of scenes"


def test_a_fingerprint_tells_scenes_of_one_name_and_number_apart():
    once, again, other = (drawn.read("train", 3, seed=s).fingerprint() for s in (0, 0, 1))
    assert once == again != other


def test_boxes_are_the_smallest_around_their_masks_and_lie_in_the_image():
    scenes = drawn.read("test", 30)
    numbers = set()
    for i in range(30):
        scene = scenes.take(i)
        numbers.add(len(scene.labels))
        assert scene.pixels.shape == (3, 96, 96)
        assert scene.pixels.dtype == torch.uint8
        assert bool((scene.masks.sum(0) <= 1).all()), "a pixel belongs to one digit"
        for mask, box in zip(scene.masks, scene.boxes, strict=True):
            rows, columns = mask.nonzero().unbind(1)
            left, top, right, bottom = box.tolist()
            assert (left, top) == (int(columns.min()), int(rows.min()))
            assert (right, bottom) == (int(columns.max()) + 1, int(rows.max()) + 1)
    assert numbers == {1, 2, 3, 4}


def test_scenes_may_be_drawn_on_photographs():
    red = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    red[:, 0] = 200
    images = Images("photos", red, torch.zeros(2).long(), torch.arange(2))
    scene = drawn.read("train", 1, backgrounds=images).take(0)
    blank = scene.masks.sum(0) == 0
    corner = scene.pixels[:, 0, 0] if bool(blank[0, 0]) else scene.pixels[:, -1, -1]
    assert corner.tolist() == [200, 0, 0]


def test_digits_of_scenes_are_a_set_to_learn_from():
    images = load("scene-digits", "test", count=20)
    assert images.shape == (3, 48, 48)
    assert images.classes == tuple("0123456789")
    assert len(images.labels.unique()) > 4


def test_mirrored_twice_is_the_scene():
    scene = drawn.read("train", 1).take(0)
    once = scene.mirrored()
    for mask, box in zip(once.masks, once.boxes, strict=True):
        columns = mask.nonzero()[:, 1]
        assert (int(box[0]), int(box[2])) == (int(columns.min()), int(columns.max()) + 1)
    assert_close(once.mirrored().boxes, scene.boxes)
    assert torch.equal(once.mirrored().pixels, scene.pixels)


def image(path, height=40, width=60):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (1, 2, 3)).save(path)


def annotation(*objects, size="<size><width>60</width><height>40</height></size>"):
    parts = [
        f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox><xmin>{b[0]}</xmin><ymin>{b[1]}</ymin>"
        f"<xmax>{b[2]}</xmax><ymax>{b[3]}</ymax></bndbox></object>"
        for name, b, difficult in objects
    ]
    return f"<annotation>{size}{''.join(parts)}</annotation>"


def put_voc(folder, part, annotations):
    for name, text in annotations.items():
        image(folder / "JPEGImages" / f"{name}.jpg")
        (folder / "Annotations").mkdir(exist_ok=True)
        (folder / "Annotations" / f"{name}.xml").write_text(text)
    lists = folder / "ImageSets/Main"
    lists.mkdir(parents=True, exist_ok=True)
    (lists / f"{part}.txt").write_text("".join(f"{name}\n" for name in annotations))


def test_voc_is_learnt_from_two_years_and_asked_about_2007(tmp_path):
    kit = tmp_path / "VOCdevkit"
    put_voc(kit / "VOC2007", "trainval", {"a": annotation(("dog", (1, 1, 60, 40), 1))})
    put_voc(kit / "VOC2012", "trainval", {"b": annotation(("cat", (11, 6, 20, 15), 0))})
    put_voc(kit / "VOC2007", "test", {"c": annotation(("cow", (1, 1, 9, 9), 1), ("cow", (11, 11, 20, 20), 0))})
    train, test = (voc.read(tmp_path, split) for split in ("train", "test"))
    assert (len(train), train.objects, len(test), test.objects) == (2, (1, 1), 1, (1,))
    assert train.take(0).boxes.tolist() == [[0, 0, 60, 40]], "counted from 1, to the last pixel"
    assert train.take(0).crowd.tolist() == [False], "difficult objects are learnt from"
    assert test.take(0).crowd.tolist() == [True, False], "but not asked about"
    assert [train.classes[i] for i in (*train.take(0).labels, *train.take(1).labels)] == ["dog", "cat"]
    assert train.take(1).pixels.shape == (3, 40, 60)


def test_voc_without_a_test_part_is_asked_about_val(tmp_path):
    put_voc(tmp_path / "VOC2012", "train", {"a": annotation(("dog", (1, 1, 9, 9), 0))})
    put_voc(tmp_path / "VOC2012", "val", {"b": annotation(("cat", (1, 1, 9, 9), 0))})
    assert [len(voc.read(tmp_path, s)) for s in ("train", "test")] == [1, 1]


def test_what_is_wrong_in_voc_is_skipped_and_counted(tmp_path):
    put_voc(
        tmp_path / "VOC2007",
        "trainval",
        {
            "a": annotation(("dog", (11, 11, 30, 30), 0), ("dog", (70, 1, 80, 9), 0), ("dog", (9, 9, 5, 20), 0)),
            "b": annotation(("unicorn", (1, 1, 9, 9), 0), ("dog", (50, 30, 65, 45), 0)),
            "empty": annotation(),
            "sizeless": annotation(("dog", (1, 1, 9, 9), 0), size=""),
        },
    )
    put_voc(tmp_path / "VOC2007", "test", {"t": annotation(("dog", (1, 1, 9, 9), 0))})
    with (tmp_path / "VOC2007/ImageSets/Main/trainval.txt").open("a") as file:
        file.write("nowhere\n")
    scenes = voc.read(tmp_path, "train")
    assert scenes.objects == (1, 1, 0, 1)
    assert sorted(scenes.notes) == [
        "annotations without objects: 1",
        "boxes cut at the border of the image: 1",
        "boxes of no area, skipped: 1",
        "boxes outside the image, skipped: 1",
        "listed images without a file or an annotation, skipped: 1",
        "objects of a class that VOC does not have, skipped: 1",
    ]
    assert scenes.take(1).boxes.tolist() == [[49, 29, 60, 40]]
    learnt = scenes.with_objects()
    assert (len(learnt), learnt.notes[-1]) == (3, "1 image without objects not learnt from")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<annotation>", "a.xml is damaged: no element found"),
        (annotation(("dog", ("x", 1, 2, 3), 0)), "a.xml is damaged: bndbox/xmin must be a number, got 'x'"),
        (annotation(), "voc train shows no object .*annotations without objects: 1"),
    ],
)
def test_a_damaged_annotation_is_named(tmp_path, text, said):
    put_voc(tmp_path / "VOC2007", "train", {"a": text})
    with pytest.raises(ValueError, match=said):
        voc.read(tmp_path, "train")


def test_a_list_that_leads_out_of_its_folder_is_refused(tmp_path):
    put_voc(tmp_path / "VOC2007", "train", {"a": annotation()})
    (tmp_path / "VOC2007/ImageSets/Main/train.txt").write_text("../../secret\n")
    with pytest.raises(ValueError, match=r"each of its lines must name an image, not '../../secret'"):
        voc.read(tmp_path, "train")


def put_coco(folder, part, annotations, images=("a.jpg",), categories=((7, "dog"), (90, "toothbrush"))):
    held = {
        "images": [{"id": 10 + i, "file_name": n, "height": 40, "width": 60} for i, n in enumerate(images)],
        "categories": [{"id": i, "name": n} for i, n in categories],
        "annotations": [{"id": i, "image_id": 10, **a} for i, a in enumerate(annotations)],
    }
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    (folder / f"annotations/instances_{part}2017.json").write_text(json.dumps(held))
    for name in images:
        if name != "missing.jpg":
            image(folder / f"{part}2017" / name)


def test_coco_is_read_and_what_is_wrong_is_counted(tmp_path):
    put_coco(
        tmp_path,
        "train",
        [
            {"bbox": [10, 5, 20, 10], "category_id": 90, "iscrowd": 0},
            {"bbox": [0, 0, 60, 40], "category_id": 7, "iscrowd": 1},
            {"bbox": [0, 0, 5, 5], "category_id": 8},
            {"bbox": [10, 10, 0, 5], "category_id": 7},
            {"bbox": [100, 10, 5, 5], "category_id": 7},
            {"bbox": [1, 1, 5, 5], "category_id": 7, "image_id": 999},
        ],
        ("a.jpg", "b.jpg", "missing.jpg"),
    )
    scenes = coco.read(tmp_path, "train")
    assert (len(scenes), scenes.objects, scenes.classes) == (2, (1, 0), ("dog", "toothbrush"))
    scene = scenes.take(0)
    assert scene.boxes.tolist() == [[10, 5, 30, 15], [0, 0, 60, 40]]
    assert scene.labels.tolist() == [1, 0]
    assert scene.crowd.tolist() == [False, True]
    assert sorted(scenes.notes) == [
        "boxes of no area, skipped: 1",
        "boxes outside the image, skipped: 1",
        "listed images without a file, skipped: 1",
        "objects of images that are not listed, skipped: 1",
        "objects with an unknown category id, skipped: 1",
    ]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools
def test_cocos_polygons_and_run_lengths_are_masks(tmp_path):
    pytest.importorskip("pycocotools")
    square = [[10, 5, 30, 5, 30, 15, 10, 15]]
    runs = {"size": [40, 60], "counts": [0, 80, 2320]}  # down the first two columns
    put_coco(
        tmp_path,
        "val",
        [
            {"bbox": [10, 5, 20, 10], "category_id": 7, "segmentation": square},
            {"bbox": [0, 0, 2, 40], "category_id": 7, "segmentation": runs},
            {"bbox": [0, 0, 2, 40], "category_id": 7},
        ],
    )
    scenes = coco.read(tmp_path, "test", masks=True)
    first, second = scenes.take(0).masks
    assert first[5:15, 10:30].all()
    assert int(first.sum()) == 200
    assert second[:, :2].all()
    assert int(second.sum()) == 80
    assert scenes.notes == ("objects without a mask, skipped: 1",)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "annotations/instances_train2017.json").unlink(), "holds no annotations/instances_train2017"),
        (lambda f: (f / "annotations/instances_train2017.json").write_text("{"), "is damaged: "),
        (lambda f: (f / "annotations/instances_train2017.json").write_text("{}"), "is damaged: it lacks 'categories'"),
        (lambda f: (f / "train2017").rename(f / "others"), "holds no train2017, where the images"),
    ],
)
def test_a_coco_folder_that_is_none_is_refused_in_a_sentence(tmp_path, spoil, said):
    put_coco(tmp_path, "train", [{"bbox": [1, 1, 5, 5], "category_id": 7}])
    spoil(tmp_path)
    with pytest.raises(ValueError, match=said):
        coco.read(tmp_path, "train")


def test_an_image_of_another_size_than_its_boxes_were_drawn_for_is_refused(tmp_path):
    put_coco(tmp_path, "train", [{"bbox": [1, 1, 5, 5], "category_id": 7}])
    scenes = coco.read(tmp_path, "train")
    image(tmp_path / "train2017/a.jpg", 30, 30)
    with pytest.raises(ValueError, match=r"a.jpg is 30×30, its annotation says 40×60"):
        scenes.take(0)
    (tmp_path / "train2017/a.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"a.jpg is not an image that can be decoded"):
        scenes.take(0)


def test_a_scene_without_masks_is_mirrored_too():
    scene = Scene(torch.zeros(3, 4, 10), torch.tensor([[1.0, 0, 3, 2]]), torch.tensor([0]), torch.tensor([False]))
    assert scene.mirrored().boxes.tolist() == [[7, 0, 9, 2]]
