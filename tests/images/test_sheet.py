"""Contact sheets: everything inside, nothing unescaped, and a browser shows it."""

import base64
import io
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from PIL import Image

from images.scenes import write_scenes
from memvec.images import SheetGroup, SheetPhoto, contact_sheet, write_sheet

ODD = "<img src=x onerror=\"document.title='owned'\">&amp;'.png"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Remembers elements and demands that they close in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]


@pytest.fixture
def page(tmp_path):
    folder = write_scenes(tmp_path / "photos", range(2))
    (folder / "scene000.png").rename(folder / ODD.replace("/", ""))
    odd = str(folder / ODD.replace("/", ""))
    photos = [
        SheetPhoto(odd, "asked", asked=True),
        SheetPhoto(str(folder / "scene001.png"), "0.91"),
        SheetPhoto(str(folder / "gone.png")),
    ]
    return contact_sheet(
        "Like <b>this</b>",
        [SheetGroup('Group "1" & only', photos)],
        summary="Two & more",
        remarks=["Skipped </footer>"],
    )


def test_sheet_is_well_formed_and_escapes_names(page):
    parsed = Page(page)
    assert ODD in " ".join(parsed.texts)
    assert 'Group "1" & only' in parsed.texts
    assert "Skipped </footer>" in parsed.texts
    assert not any("onerror" in attributes for _, attributes in parsed.seen)
    assert [tag for tag, _ in parsed.seen].count("script") == 0


def test_sheet_is_accessible(page):
    parsed = Page(page)
    assert parsed.all("html") == [{"lang": "en"}]
    assert len(parsed.all("h1")) == len(parsed.all("main")) == len(parsed.all("title")) == 1
    names = {attributes["id"] for attributes in parsed.all("h2")}
    assert {attributes["aria-labelledby"] for attributes in parsed.all("section")} == names
    for image in parsed.all("img"):
        assert image["alt"]
        assert int(image["width"]) * int(image["height"]) > 0


def test_sheet_holds_its_thumbnails(page):
    for image in Page(page).all("img"):
        data = image["src"].removeprefix("data:image/jpeg;base64,")
        shown = Image.open(io.BytesIO(base64.b64decode(data)))
        assert shown.size == (160, 120)
    assert not re.search(r'(src|href)="https?:', page)


def test_large_photo_becomes_a_small_thumbnail(tmp_path):
    Image.new("RGB", (2000, 1000)).save(tmp_path / "a.jpg")
    photo = SheetPhoto(str(tmp_path / "a.jpg"))
    [image] = Page(contact_sheet("t", [SheetGroup("g", [photo])])).all("img")
    assert (image["width"], image["height"]) == ("256", "128")


def test_unreadable_photo_is_shown_by_name(page):
    assert "gone.png cannot be read" in Page(page).texts
    assert len(Page(page).all("img")) == 2


def test_sheet_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "sheet.html"
    write_sheet(path, "first")

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_sheet(path, "second")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["sheet.html"]


def run_browser(*arguments):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    done = subprocess.run([BROWSER, *flags, *arguments], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_browser_shows_the_sheet(page, tmp_path):
    write_sheet(tmp_path / "sheet.html", page)
    address = (tmp_path / "sheet.html").as_uri()
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    shot = tmp_path / "shot.png"
    dom = run_browser(profile, "--dump-dom", address)
    assert "<title>Like &lt;b&gt;this&lt;/b&gt;</title>" in dom  # no name of a file became code
    run_browser(profile, f"--screenshot={shot}", "--window-size=900,700", address)
    # The thumbnails are dead leaves in hundreds of colours; a page without them has a few greys.
    assert len(Image.open(shot).convert("RGB").getcolors(maxcolors=1 << 24)) > 1000
