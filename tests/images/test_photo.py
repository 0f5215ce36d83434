"""Photographs are read whatever their form, and what cannot be read says why."""

import io
import os
import re
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from memvec.errors import FileFormatError, InvalidTypeError, InvalidValueError
from memvec.images import find_photos, read_photo
from memvec.images._photo import MAX_FILE_BYTES

RED, WHITE = (200, 30, 40), (255, 255, 255)


def save(path, image, **options):
    image.save(path, **options)
    return path


def halves(width=40, height=30):
    """Red on the left, white on the right."""
    pixels = np.full((height, width, 3), 255, dtype=np.uint8)
    pixels[:, : width // 2] = RED
    return pixels


def png_header(width, height):
    """A file of a few bytes that claims any size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = b""
    for name, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")):
        crc = struct.pack(">I", zlib.crc32(name + data))
        chunks += struct.pack(">I", len(data)) + name + data + crc
    return b"\x89PNG\r\n\x1a\n" + chunks


def test_plain_photo_keeps_its_pixels(tmp_path):
    photo = read_photo(save(tmp_path / "a.png", Image.fromarray(halves())))
    np.testing.assert_array_equal(photo.pixels, halves())
    assert photo.notes == ()
    assert repr(photo) == "Photo(40 x 30)"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(tmp_path, orientation):
    upright = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(np.ascontiguousarray(stored))
    photo = read_photo(save(tmp_path / "a.png", image, exif=exif))
    np.testing.assert_array_equal(photo.pixels, upright)
    assert photo.notes == (() if orientation == 1 else ("turned as EXIF says",))


def test_damaged_exif_does_not_hide_the_picture(tmp_path):
    path = save(
        tmp_path / "a.jpg", Image.fromarray(halves()), exif=b"Exif\0\0II*\0\xff\xff\xff\xff"
    )
    assert read_photo(path).pixels.shape == (30, 40, 3)


def test_cmyk_becomes_rgb(tmp_path):
    photo = read_photo(save(tmp_path / "a.jpg", Image.fromarray(halves()).convert("CMYK")))
    assert photo.notes == ("CMYK converted to RGB",)
    # Seen: no difference; JPEG may round by one.
    assert np.abs(photo.pixels[:, 4:12].astype(int) - RED).max() <= 1


def test_transparent_parts_become_white(tmp_path):
    layered = np.dstack([np.full((30, 40, 3), RED, np.uint8), np.full((30, 40), 255, np.uint8)])
    layered[:, 20:, 3] = 0
    photo = read_photo(save(tmp_path / "a.png", Image.fromarray(layered)))
    np.testing.assert_array_equal(photo.pixels, halves())
    assert photo.notes == ("transparent parts made white",)


def test_palette_with_transparency_becomes_white(tmp_path):
    image = Image.new("P", (20, 20), 1)
    image.putpalette([0, 0, 0, *RED])
    image.putpixel((0, 0), 0)
    photo = read_photo(save(tmp_path / "a.gif", image, transparency=0))
    assert tuple(photo.pixels[0, 0]) == WHITE
    assert tuple(photo.pixels[5, 5]) == RED


def test_16_bit_values_are_scaled(tmp_path):
    deep = np.linspace(0, 65535, 400, dtype=np.uint16).reshape(20, 20)
    photo = read_photo(save(tmp_path / "a.png", Image.fromarray(deep)))
    np.testing.assert_array_equal(photo.pixels, np.dstack([deep // 256] * 3))
    assert photo.notes == ("16-bit values scaled to 8 bits",)


def test_float_values_are_stretched(tmp_path):
    deep = np.linspace(-1, 3, 400, dtype=np.float32).reshape(20, 20)
    photo = read_photo(save(tmp_path / "a.tiff", Image.fromarray(deep)))
    assert (photo.pixels.min(), photo.pixels.max()) == (0, 255)
    assert photo.notes == ("32-bit values scaled to 8 bits",)


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_grey_and_palettes_are_usual(tmp_path, mode):
    image = Image.fromarray(halves()[:, :, 0]).convert(mode)
    photo = read_photo(save(tmp_path / "a.png", image))
    assert photo.pixels.shape == (30, 40, 3)
    assert photo.notes == ()


def test_first_frame_of_an_animation_is_read(tmp_path):
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("black", "white")]
    path = tmp_path / "a.webp"
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    photo = read_photo(path)
    assert photo.notes == ("first of 2 frames",)
    assert photo.pixels.max() == 0


def test_truncated_jpeg_is_refused_with_the_reason(tmp_path):
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    path = tmp_path / "a.jpg"
    for share in (0.3, 0.6, 0.95):
        path.write_bytes(buffer.getvalue()[: int(share * buffer.tell())])
        with pytest.raises(FileFormatError, match=r"a\.jpg cannot be read as a photograph: "):
            read_photo(path)


@pytest.mark.parametrize("content", [b"", b"not a photograph", b"\xff\xd8\xff\xe0", b"%!PS-Adobe"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="cannot be read as a photograph: cannot identify"):
        read_photo(path)


@pytest.mark.parametrize(
    ("width", "height"), [(10_000, 10_000), (20_000, 20_000), (60_000, 60_000)]
)
def test_bomb_is_refused_before_it_is_decoded(tmp_path, width, height):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(width, height))
    claim = f"bomb.png claims {width:,} x {height:,} pixels; at most 89,478,485 are decoded."
    with pytest.raises(FileFormatError, match=re.escape(claim) + "$"):
        read_photo(path)


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.tiff", "a.webp"])
def test_limit_of_pillow_is_set_aside_and_restored(tmp_path, monkeypatch, name):
    path = save(tmp_path / name, Image.fromarray(halves()))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow refuses more than twice as many
    assert read_photo(path).pixels.shape == (30, 40, 3)
    assert Image.MAX_IMAGE_PIXELS == 100
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert read_photo(path).pixels.shape == (30, 40, 3)


def test_reason_of_a_decoder_ends_with_one_stop(tmp_path, monkeypatch):
    def fail(image):
        raise ValueError("It broke.")

    path = save(tmp_path / "a.png", Image.fromarray(halves()))
    monkeypatch.setattr("memvec.images._photo._upright_rgb", fail)
    with pytest.raises(FileFormatError, match=r"a photograph: It broke\.$"):
        read_photo(path)


def test_limit_can_be_set(tmp_path):
    path = save(tmp_path / "a.png", Image.fromarray(halves()))
    with pytest.raises(FileFormatError, match="claims 40 x 30 pixels; at most 1,000 are decoded"):
        read_photo(path, max_pixels=1000)
    with pytest.raises(InvalidValueError, match="'max_pixels' parameter of read_photo"):
        read_photo(path, max_pixels=0)


def test_tiny_photo_is_refused(tmp_path):
    path = save(tmp_path / "a.png", Image.new("RGB", (1, 1)))
    with pytest.raises(FileFormatError, match="has 1 x 1 pixels; a photograph has at least 16"):
        read_photo(path)


def test_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(FileFormatError, match=r"a\.jpg is not a regular file"):
        read_photo(tmp_path / "a.jpg")


def test_huge_file_is_not_read(tmp_path):
    path = tmp_path / "a.jpg"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)  # sparse: takes no room
    with pytest.raises(FileFormatError, match="has 536,870,913 bytes; at most 536,870,912"):
        read_photo(path)


def test_missing_photo_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_photo(tmp_path / "a.jpg")


def test_folder_is_searched_below_and_sorted(tmp_path):
    for name in ("z.png", "sub/a.JPEG", ".cache/a.jpg", "sub/.a.jpg", "readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [os.path.relpath(path, tmp_path) for path in find_photos(tmp_path)]
    assert found == ["sub/a.JPEG", "z.png"]


def test_link_to_a_folder_is_not_followed(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [os.path.basename(path) for path in find_photos(tmp_path)] == ["a.png"]


def test_folder_must_be_there(tmp_path):
    with pytest.raises(InvalidValueError, match="'folder' parameter of find_photos must be an exi"):
        find_photos(tmp_path / "nowhere")
    with pytest.raises(InvalidTypeError, match="must be a path. Got 3 instead"):
        find_photos(3)
