"""The digits example without the engine: its model, its pictures, its plug-ins one by one."""

import io
import json
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from millstream import Reject

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
SAMPLES = sorted((DIGITS / "samples").iterdir())
PLUG_INS = ["preprocess", "infer", "postprocess"]

ScriptLoader = Callable[[Path], ModuleType]
Decode = Callable[..., NDArray[np.float32]]


class Chain:
    """The three plug-ins, set up; called with bodies it answers as the pipeline would."""

    def __init__(self, load_script: ScriptLoader) -> None:
        self.preprocess = load_script(DIGITS / "preprocess.py").Preprocess()
        self.infer = load_script(DIGITS / "infer.py").Infer()
        self.postprocess = load_script(DIGITS / "postprocess.py").Postprocess()
        self.infer.model_dir = DIGITS / "model"
        for plug_in in (self.preprocess, self.infer, self.postprocess):
            plug_in.setup()

    def __call__(self, *bodies: bytes) -> list[dict[str, Any]]:
        decoded = [self.preprocess.decode(body, "image/png") for body in bodies]
        arrays = self.preprocess.forward(decoded)
        results: list[dict[str, Any]] = self.postprocess.forward(self.infer.forward(list(arrays)))
        return results


@pytest.fixture(scope="module")
def train(load_script: ScriptLoader) -> ModuleType:
    train = load_script(DIGITS / "train.py")
    if not train.is_usable(train.MODEL):
        subprocess.run([sys.executable, DIGITS / "train.py"], check=True, timeout=55)
    return train


@pytest.fixture(scope="module")
def chain(train: ModuleType, load_script: ScriptLoader) -> Chain:
    assert train.is_usable(train.MODEL)
    return Chain(load_script)


@pytest.fixture(scope="module")
def decode(load_script: ScriptLoader) -> Decode:
    decode: Decode = load_script(DIGITS / "preprocess.py").Preprocess().decode
    return decode


def encoded(image: Image.Image, form: str = "PNG") -> bytes:
    body = io.BytesIO()
    image.save(body, form)
    return body.getvalue()


def sample(digit: int) -> Image.Image:
    return Image.open(DIGITS / "samples" / f"{digit}.png")


# The model


def test_the_model_is_right_on_held_out_digits(train: ModuleType) -> None:
    split = train.load_split()

    right = train.accuracy(train.load(train.MODEL), split.held_out_images, split.held_out_labels)

    assert right >= 0.97


@pytest.mark.parametrize("on_paper", [False, True], ids=["as in the dataset", "on paper"])
def test_pictures_of_held_out_digits_are_read_right(
    train: ModuleType, chain: Chain, on_paper: bool
) -> None:
    split = train.load_split()
    pictures = []
    for digit in split.held_out_images:
        picture = Image.fromarray((digit.numpy() * 255).astype(np.uint8)).resize((40, 40))
        if on_paper:
            picture = ImageOps.invert(ImageOps.expand(picture, (50, 10, 5, 20)))
        pictures.append(encoded(picture))

    answers = [answer["digit"] for answer in chain(*pictures)]

    assert np.mean(np.equal(answers, split.held_out_labels.numpy())) >= 0.97


def test_a_usable_model_is_left_as_it_is(
    train: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = train.MODEL.stat()
    monkeypatch.setattr(sys, "argv", ["train.py", "--if-missing"])

    assert train.main() == 0

    after = train.MODEL.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert capfd.readouterr() == ("", "")


def test_a_version_of_its_own(
    train: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    version = tmp_path / "models" / "2"
    version.mkdir(parents=True)
    shutil.copy(train.MODEL, version)
    monkeypatch.setattr(sys, "argv", ["train.py", "--if-missing", "--out", str(version)])

    assert train.main() == 0

    assert capfd.readouterr().out == ""
    assert [path.name for path in version.iterdir()] == ["digits.pt"]


def test_half_a_file_and_an_older_model_are_no_usable_model(
    train: ModuleType, tmp_path: Path
) -> None:
    whole = train.MODEL.read_bytes()
    half = tmp_path / "half.pt"
    half.write_bytes(whole[: len(whole) // 2])
    empty = tmp_path / "empty.pt"
    empty.touch()
    older = tmp_path / "older.pt"
    train.save(train.load(train.MODEL).layers[:4], older)

    assert not train.is_usable(tmp_path / "none.pt")
    assert not train.is_usable(half)
    assert not train.is_usable(empty)
    assert not train.is_usable(older)


def test_saving_replaces_what_was_there_and_leaves_nothing_beside(
    train: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "model" / "digits.pt"
    path.parent.mkdir()
    path.write_bytes(b"half a fi")

    train.save(train.load(train.MODEL), path)

    assert train.is_usable(path)
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_model_is_reported_with_the_way_to_make_it(
    load_script: ScriptLoader, tmp_path: Path
) -> None:
    for name in ("infer.py", "model.py"):
        shutil.copy(DIGITS / name, tmp_path)
    infer = load_script(tmp_path / "infer.py").Infer()
    infer.model_dir = tmp_path / "model"

    with pytest.raises(FileNotFoundError, match=r"digits\.pt is missing: run .*train\.py"):
        infer.setup()


# The plug-ins together


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_read_right(chain: Chain, path: Path) -> None:
    [answer] = chain(path.read_bytes())

    assert answer["digit"] == int(path.stem)
    assert answer["probability"] > 0.9


def test_there_is_a_png_of_each_digit_and_a_jpeg() -> None:
    assert {path.name for path in SAMPLES} == {*(f"{n}.png" for n in range(10)), "3.jpg"}


def test_a_batch_is_answered_in_order(chain: Chain) -> None:
    bodies = [encoded(sample(digit)) for digit in (7, 1, 4)]

    assert [answer["digit"] for answer in chain(*bodies)] == [7, 1, 4]


def test_an_answer_is_plain_json_with_three_runners_up(chain: Chain) -> None:
    [answer] = chain(encoded(sample(8)))

    assert json.loads(json.dumps(answer)) == answer
    assert set(answer) == {"digit", "probability", "runners_up"}
    guesses = [answer, *answer["runners_up"]]
    assert len({guess["digit"] for guess in guesses}) == 4
    probabilities = [guess["probability"] for guess in guesses]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(round(p, 3) == p for p in probabilities)


def test_infer_serves_its_example_and_read_only_input(chain: Chain) -> None:
    example = chain.infer.example
    example.setflags(write=False)

    probabilities = chain.infer.forward([example] * 32)

    assert probabilities.shape == (32, 10)
    assert probabilities.dtype == np.float32
    assert np.allclose(probabilities.sum(axis=1), 1)


# Pictures of every kind


@pytest.mark.parametrize(
    ("mode", "form"),
    [
        *((mode, "PNG") for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        *((mode, "JPEG") for mode in ("L", "RGB", "CMYK")),
    ],
)
@pytest.mark.parametrize("inverted", [False, True], ids=["dark", "paper"])
def test_every_mode_is_read_right(chain: Chain, mode: str, form: str, inverted: bool) -> None:
    picture = sample(2).convert("L")
    if inverted:
        picture = ImageOps.invert(picture)
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture).astype(np.uint16) * 16)
    else:
        picture = picture.convert(mode)

    [answer] = chain(encoded(picture, form))

    assert answer["digit"] == 2


@pytest.mark.parametrize("mode", ["LA", "RGBA", "P"])
@pytest.mark.parametrize("ink", [0, 255], ids=["black", "white"])
def test_strokes_on_a_transparent_ground_are_read_right(chain: Chain, mode: str, ink: int) -> None:
    picture = Image.new("L", (64, 64), ink)
    picture.putalpha(sample(5).convert("L"))
    if mode == "P":
        stroke_index = sample(5).convert("L").point(lambda level: level > 127)
        picture = stroke_index.convert("P")
        picture.putpalette([9, 9, 9, ink, ink, ink])
        picture.info["transparency"] = 0
    else:
        picture = picture.convert(mode)

    [answer] = chain(encoded(picture))

    assert answer["digit"] == 5


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.parametrize(
    "size", [(1, 1), (8, 8), (1, 700), (700, 1), (7, 9), (5000, 2), (3000, 2000)], ids=str
)
def test_every_size_becomes_eight_by_eight(
    decode: Decode, size: tuple[int, int], form: str
) -> None:
    digit = decode(encoded(sample(6).convert("L").resize(size), form), f"image/{form.lower()}")

    assert digit.shape == (8, 8)
    assert digit.dtype == np.float32
    assert np.isfinite(digit).all()
    assert 0 <= digit.min() <= digit.max() <= 1


def test_a_digit_in_a_large_scan_is_found(chain: Chain) -> None:
    page = Image.new("L", (3000, 2000), 240)
    page.paste(ImageOps.invert(sample(9).resize((900, 900))), (1700, 300))

    for form in ("PNG", "JPEG"):
        [answer] = chain(encoded(page, form))
        assert answer["digit"] == 9


def test_a_blank_page_is_a_digit_without_strokes(chain: Chain) -> None:
    for level in (0, 127, 255):
        body = encoded(Image.new("L", (30, 20), level))
        assert not chain.preprocess.decode(body, "image/png").any()
        assert chain(body)


def test_a_turned_photo_is_read_upright(chain: Chain) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    body = io.BytesIO()
    sample(4).convert("L").rotate(90).save(body, "JPEG", exif=exif)

    [answer] = chain(body.getvalue())

    assert answer["digit"] == 4


# What is no picture


def chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def png_that_claims(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


PNG = (DIGITS / "samples" / "0.png").read_bytes()
JPEG = (DIGITS / "samples" / "3.jpg").read_bytes()


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        pytest.param(b"", "image/png", 400, id="empty"),
        pytest.param(b"", "application/json", 400, id="empty, another type"),
        pytest.param(b"not an image", "image/png", 400, id="text that claims to be an image"),
        pytest.param(b"not an image", "IMAGE/PNG", 400, id="a type in capitals"),
        pytest.param(b"not an image", "application/octet-stream", 400, id="any bytes"),
        pytest.param(b"not an image", "", 400, id="no type"),
        pytest.param(b"not an image", "text/plain; charset=utf-8", 415, id="text"),
        pytest.param(b'{"image": 3}', "application/json", 415, id="JSON"),
        pytest.param(encoded(Image.new("L", (8, 8)), "GIF"), "image/gif", 400, id="GIF"),
        pytest.param(PNG[: len(PNG) // 2], "image/png", 400, id="half a PNG"),
        pytest.param(JPEG[: len(JPEG) // 2], "image/jpeg", 400, id="half a JPEG"),
        pytest.param(PNG[:20], "image/png", 400, id="the start of a PNG"),
        pytest.param(PNG[:60] + bytes(200) + PNG[260:], "image/png", 400, id="a spoilt PNG"),
        pytest.param(png_that_claims(0, 8), "image/png", 400, id="no width"),
        pytest.param(png_that_claims(6000, 5000), "image/png", 413, id="30 million pixels"),
        pytest.param(png_that_claims(65000, 65000), "image/png", 413, id="bomb"),
    ],
)
def test_what_is_no_picture_is_refused(
    decode: Decode, body: bytes, content_type: str, status: int
) -> None:
    with pytest.raises(Reject) as refusal:
        decode(body, content_type)

    assert refusal.value.status == status


@pytest.mark.parametrize("whole", [PNG, JPEG], ids=["PNG", "JPEG"])
def test_a_picture_cut_anywhere_is_read_or_refused(decode: Decode, whole: bytes) -> None:
    for length in range(0, len(whole), 7):
        try:
            assert decode(whole[:length], "image/png").shape == (8, 8)
        except Reject as refusal:
            assert refusal.status == 400  # noqa: PT017


# What users copy


@pytest.mark.parametrize("name", PLUG_INS)
def test_a_plug_in_is_short_enough_to_copy(name: str) -> None:
    assert len((DIGITS / f"{name}.py").read_text().splitlines()) < 40


@pytest.mark.parametrize("name", ["preprocess", "postprocess"])
def test_stages_on_the_cpu_do_not_load_torch(name: str) -> None:
    there = f"import sys; sys.path.append({str(DIGITS)!r}); import {name}"
    check = f"{there}; sys.exit('torch' in sys.modules)"

    subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=True, timeout=30)
