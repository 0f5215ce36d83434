"""The page in a real browser: every view, the slider, the stream, and what goes wrong."""

import csv
import os
import re
import shutil
import struct
import time
import zlib

import numpy as np
import pytest

import memvec
from memvec.server import KeyFile, ServerSettings
from server.conftest import running

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine"),
]
SHOTS = os.environ.get("MEMVEC_SCREENSHOTS")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The first 2,500 sentences of the sample, five of them three times."""
    from memvec.evaluation import load_sample

    root = tmp_path_factory.mktemp("page")
    sample = load_sample()
    rows, texts = sample.vectors[:2500], list(sample.texts[:2500])
    rng = np.random.default_rng(1)
    near = rows[:10] + 0.008 * rng.standard_normal((10, rows.shape[1])).astype(np.float32)
    with memvec.open(root / "synsets", dim=rows.shape[1], similarity=0.6, seal_at=0) as made:
        told = [{"text": text, "row": row, "even": row % 2 == 0} for row, text in enumerate(texts)]
        made.add(rows, metadata=told)
        made.seal(progress=False)
        made.add(near, ids=[f"copy-{n}" for n in range(10)], metadata=told[:10])
    with memvec.open(root / "empty", dim=3):
        pass
    return root


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as tools:
        started = tools.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(folder):
    with running(ServerSettings(folder, encoder="server.encoding:encode")) as url:
        yield url


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as shown:
        yield shown


class opened:  # noqa: N801 - used as a function
    """A page that nothing goes wrong on without being seen, and that asks nobody else."""

    def __init__(self, browser, url, at="", **options):
        self._context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self._page = self._context.new_page()
        self._page.set_default_timeout(20_000)
        self._complaints, self._strangers = [], []
        self._page.on("pageerror", lambda error: self._complaints.append(str(error)))
        self._page.on("console", self._heard)
        self._page.on("request", lambda request: self._asked(url, request.url))
        self._page.goto(f"{url}/{at}")

    def _heard(self, message):
        if message.type == "error" and "the server responded with a status" not in message.text:
            self._complaints.append(message.text)

    def _asked(self, url, asked):
        if not asked.startswith((url, "blob:", "data:")):
            self._strangers.append(asked)

    def __enter__(self):
        return self._page

    def __exit__(self, *reason):
        self._context.close()
        if reason[0] is None:
            assert self._complaints == []
            assert self._strangers == []


def shoot(page, name):
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=False)


def until(page, expression, arg=None):
    """Wait for something to be true on the page; its policy forbids Playwright's own way."""
    end = time.monotonic() + 20
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def card(page, number=0):
    return page.locator("#results .card").nth(number)


def explore(page, name="synsets"):
    page.evaluate(f"location.hash = '#explore/{name}'")
    page.wait_for_selector("#results .card")
    until(page, "/found in/.test(document.getElementById('status').textContent)")


def set_slider(page, value):
    page.locator("#similarity").evaluate(
        "(s, v) => { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def test_collections_are_listed_with_their_promise(page):
    page.wait_for_selector(".card")
    text = page.locator("main").inner_text()
    for words in ("2 collections", "2,510", "misses at most 1 % above 0.6", "no query compared"):
        assert words in text
    page.get_by_role("button", name="Check files").last.click()
    page.wait_for_selector("text=files are whole")


def test_explore_shows_scores_results_and_the_certificate(page):
    explore(page)
    assert card(page).locator(".name").inner_text() == "0"
    assert "score 1.0000" in card(page).inner_text()
    assert "miss at most 1 %" in page.locator("#certificate").inner_text()
    assert "an unrelated item scores as high with p" in page.locator("#told").inner_text()
    assert page.locator("svg.chart rect.bar").count() == 100
    assert page.locator("svg.chart polyline.law").count() == 1
    drawn = page.locator("svg.chart .p-value").text_content()
    assert re.fullmatch(r"p [<=] [\d.e-]+", drawn)
    assert f"with {drawn};" in page.locator("#told").inner_text()
    shoot(page, "server-explore")


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.0421, 2, "0.042"), (4.21, 2, "4.2"), (9.96, 2, "10"), (42.1, 2, "42"),
        (170.2, 2, "170"), (4210, 2, "4,210"), (1, 1, "1"), (45.13, 3, "45.1"), (999.7, 3, "1,000"),
    ],
)  # fmt: skip
def test_numbers_have_no_powers_of_ten(page, number, digits, text):
    asked = "async ([n, digits]) => (await import('/page/dom.js')).about(n, digits)"
    assert page.evaluate(asked, [number, digits]) == text


def test_slider_changes_the_results_the_p_value_and_the_chart(page):
    explore(page)
    seen = []
    for value in ("0.3", "0.9"):
        set_slider(page, value)
        until(page, f"document.getElementById('certificate').textContent.includes('above {value}')")
        until(page, "/found in/.test(document.getElementById('status').textContent)")
        seen.append(
            (
                int(page.locator("#status").inner_text().split()[0].replace(",", "")),
                page.locator("rect.bar.in").count(),
                page.locator("#told").inner_text(),
            )
        )
    assert seen[0][0] > seen[1][0] >= 1
    assert seen[0][1] > seen[1][1]
    assert seen[0][2] != seen[1][2]
    assert page.locator("#results .card").count() == seen[1][0]


def test_filter_vector_and_text_are_searched_with(page):
    explore(page)
    page.locator("#where").fill('{"even": false}')
    set_slider(page, "0.35")
    page.get_by_role("button", name="Search").click()
    until(page, "document.getElementById('certificate').textContent.includes('Filter')")
    assert "true" not in page.locator("#results").inner_text()
    page.locator("#where").fill("")
    page.locator("#kind").select_option("text")
    page.locator("#query").fill("7")
    page.get_by_role("button", name="Search").click()
    until(page, "document.querySelector('#results .card .name')?.textContent.endsWith('7')")
    page.locator("#kind").select_option("vector")
    page.locator("#query").fill("[1, 2]")
    page.get_by_role("button", name="Search").click()
    page.wait_for_selector("#alert:not([hidden])")
    assert "must be of dimension 384" in page.locator("#alert").inner_text()
    page.locator("#query").fill("[1,")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Search").click()
    until(page, "/JSON/.test(document.getElementById('alert').textContent)")


DROP = """text => {
    const given = new DataTransfer();
    given.items.add(new File([text], "b.png", { type: "image/png" }));
    const event = new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true });
    document.querySelector(".drop-zone").dispatchEvent(event);
}"""


def test_photograph_is_chosen_or_dropped(page):
    """The encoder of these tests takes what a photograph holds for a number of the sample."""
    explore(page)
    page.locator("#kind").select_option("photo")
    page.get_by_role("button", name="Search").click()
    page.wait_for_selector("text=Choose a photograph.")
    photo = {"name": "a.png", "mimeType": "image/png", "buffer": b"7"}
    page.locator("#query").set_input_files(photo)
    page.get_by_role("button", name="Search").click()
    until(page, "/\\b7$/.test(document.querySelector('#results .card .name')?.textContent)")
    page.evaluate(DROP, "8")
    until(page, "/\\b8$/.test(document.querySelector('#results .card .name')?.textContent)")
    page.evaluate(DROP, "no photograph")
    page.wait_for_selector("#alert:not([hidden])")


def png(width, height):
    """Return a black picture."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((1 + width) * height))
    return b"".join(
        [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), chunk(b"IDAT", rows), chunk(b"IEND", b"")]
    )


def test_cards_show_photographs_where_there_are_some(browser, tmp_path):
    root, photos = tmp_path / "root", tmp_path / "photos"
    root.mkdir()
    photos.mkdir()
    (photos / "a.png").write_bytes(png(3, 2))
    with memvec.open(root / "shots", dim=2) as made:
        made.add([[1, 0], [1, 0.1]], ids=["a.png", "b.png"])
    with running(ServerSettings(root, photos=photos)) as url, opened(browser, url) as page:
        explore(page, "shots")
        page.wait_for_selector("#results .card img")
        until(page, "document.querySelector('#results .card img').naturalWidth === 3")
        assert page.locator("#results .card").count() == 2
        assert page.locator("#results .card img").count() == 1
        assert page.locator("#results .card img").get_attribute("alt") == "photograph a.png"


def test_it_tells_why_an_item_was_found_or_not(page):
    explore(page)
    set_slider(page, "0.45")
    page.wait_for_selector("#results .card:nth-child(4)")
    card(page, 2).get_by_role("button", name="Why?").click()
    page.wait_for_selector("dialog[open]")
    assert "Returned." in page.locator("#dialog-title").inner_text()
    assert page.locator("dialog svg circle.passed").count() >= 1
    shoot(page, "server-why")
    page.get_by_role("button", name="Close").click()
    page.locator("#why-id").fill("1234")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("dialog[open] circle.stopped")
    assert "Not returned" in page.locator("#dialog-title").inner_text()
    page.keyboard.press("Escape")
    page.locator("#why-id").fill("nobody")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("#alert:not([hidden])")


def test_answer_of_nothing_replaces_the_one_before(page):
    explore(page)
    page.locator("#where").fill('{"row": 99999}')
    page.get_by_role("button", name="Search").click()
    until(page, "/^Nothing found in/.test(document.getElementById('status').textContent)")
    assert page.locator("#results .card").count() == 0
    page.locator("#where").fill("{row")
    page.get_by_role("button", name="Search").click()
    page.wait_for_selector("text=The filter is not valid JSON")
    assert page.locator("#status").inner_text() == ""


def test_error_is_seen_from_the_end_of_the_page(page):
    explore(page)
    set_slider(page, "0.3")
    until(page, "document.querySelectorAll('#results .card').length === 60")
    page.locator("#why-id").fill("nobody")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.evaluate("document.getElementById('why-id').form.requestSubmit()")
    page.wait_for_selector("#alert:not([hidden])")
    place = page.locator("#alert").bounding_box()
    assert 0 <= place["y"] < page.viewport_size["height"] - place["height"]


def test_distances_are_told_as_distances(browser, tmp_path):
    rows = np.eye(4)[[0, 0, 1]]
    with memvec.open(tmp_path / "far", dim=4, metric="euclidean", radius=0.8) as made:
        made.add(rows)
    with running(ServerSettings(tmp_path)) as url, opened(browser, url) as page:
        page.wait_for_selector("text=misses at most 1 % within 0.8 (expected)")
        explore(page, "far")
        assert "distance 0.0000" in card(page).inner_text()
        # Nothing is sealed: there is no law, and no p-value.
        assert ", p" not in card(page).inner_text()
        assert "what unrelated items score is not known" in page.locator("#told").inner_text()
        assert page.locator("polyline.law").get_attribute("points") == ""


def test_more_like_this_searches_with_the_item(page):
    explore(page)
    name = card(page, 1).locator(".name").inner_text()
    card(page, 1).get_by_role("button", name="More like this").click()
    until(
        page,
        "name => document.querySelector('#results .card .name')?.textContent === name",
        arg=name,
    )


def test_duplicates_are_found_chosen_exported_and_deleted(page, address):
    page.evaluate("location.hash = '#duplicates/synsets'")
    page.locator("#level").fill("0.95")
    page.get_by_role("button", name="Find duplicates").click()
    page.wait_for_selector("#groups section")
    assert "groups in 2,510 items" in page.locator("#status").inner_text()
    shoot(page, "server-duplicates")
    button = page.locator("#groups button.danger")
    before = int(button.inner_text().split()[1].replace(",", ""))
    assert before >= 10
    dropped = page.locator("#groups section").first.locator("input:not(:checked)").first
    dropped.check()
    assert button.inner_text() == f"Delete {before - 1} items…"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export CSV").click()
    rows = saved.value.path().read_text().splitlines()
    assert rows[0] == "group,id,keep"
    assert sum(row.endswith("false") for row in rows) == before - 1
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export Parquet").click()
    assert saved.value.path().read_bytes().startswith(b"PAR1")
    button.click()
    page.wait_for_selector("dialog[open]")
    assert f"Delete {before - 1} items?" in page.locator("#dialog-title").inner_text()
    page.get_by_role("button", name="Cancel").click()
    button.click()
    page.locator("dialog button.danger").click()
    page.wait_for_selector(f"text=Deleted: {before - 1} items.")
    with memvec.Client(address) as client:
        assert len(client.collection("synsets")) == 2510 - (before - 1)


def test_page_works_on_a_phone_in_the_dark(browser, address):
    options = {"color_scheme": "dark", "device_scale_factor": 1}
    with opened(browser, address, **options) as page:
        page.set_viewport_size({"width": 375, "height": 740})
        explore(page)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 375
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(20, 23, 27)"
        shoot(page, "server-phone")


def test_page_is_used_by_keyboard_and_has_names_for_everything(page):
    explore(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")
    page.locator("#similarity").focus()
    before = page.locator("#told").inner_text()
    page.keyboard.press("ArrowRight")
    until(page, "t => document.getElementById('told').textContent !== t", arg=before)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, a, [role=img]')]
            .filter(e => !(e.labels?.length || e.ariaLabel || e.getAttribute('aria-label')
                           || e.textContent.trim())).map(e => e.outerHTML)"""
    )
    assert nameless == []


def test_collections_tell_what_queries_have_seen(page, address):
    with memvec.Client(address) as client:
        synsets = client.collection("synsets")
        synsets.shadow = 1.0
        names = [name for name in synsets if isinstance(name, int)][:300]
        vectors = np.array([item.vector for item in synsets.get(names)])
        for start in range(0, len(names), 50):
            synsets.range_search(vectors[start : start + 50], 0.5)
        synsets.shadow = 0.0
        for vector in vectors[:20]:
            synsets.range_search(vector, 0.5)
    page.evaluate("location.hash = '#explore/synsets'")
    page.wait_for_selector("#results .card")
    page.evaluate("location.hash = '#collections'")
    page.wait_for_selector("text=2 collections")
    text = page.locator(".card").last.inner_text()
    assert "no query" not in text
    assert "of 300 queries (" in text
    assert re.search(r"\d ms, median of recent searches", text)
    assert "e+" not in text
    page.get_by_role("button", name="Check files").last.click()
    page.wait_for_selector("text=files are whole")
    shoot(page, "server-collections")


IN_SMALL_LOTS = """() => {
    const real = window.fetch;
    let lots = 0;
    window.fetch = async (path, options) => {
        const answer = await real(path, options);
        if (path.endsWith("/items/get") && lots++ === 0) {
            await new Promise((resolve) => { setTimeout(resolve, 500); });
        }
        if (!path.endsWith("/range")) return answer;
        const lines = (await answer.text()).split("\\n").slice(0, -1);
        return new Response(new ReadableStream({ async start(out) {
            while (lines.length) {
                out.enqueue(new TextEncoder().encode(lines.splice(0, 20).join("\\n") + "\\n"));
                await new Promise((resolve) => { setTimeout(resolve, 1); });
            }
            out.close();
        } }));
    };
}"""


def test_cards_come_in_the_order_of_their_scores(page):
    """Metadata of the first lot comes late: its cards are still the first."""
    explore(page)
    page.evaluate(IN_SMALL_LOTS)
    set_slider(page, "0.4")
    until(page, "document.querySelectorAll('#results .card').length === 60")
    texts = page.locator("#results .card .numbers").all_text_contents()
    scores = [float(text.split()[1].rstrip(",")) for text in texts]
    assert scores == sorted(scores, reverse=True)


def test_empty_collection_and_unknown_view_are_told(page):
    page.evaluate("location.hash = '#explore/empty'")
    page.wait_for_selector("text=The collection is empty.")
    page.evaluate("location.hash = '#nothing'")
    page.wait_for_selector("text=2 collections")


def test_page_asks_for_a_key_where_the_server_does(browser, folder, tmp_path):
    key_file = KeyFile(tmp_path / "keys.json")
    key = key_file.create("read")
    with (
        running(ServerSettings(folder, key_file=tmp_path / "keys.json", read_only=True)) as url,
        opened(browser, url) as page,
    ):
        page.wait_for_selector("dialog[open] input[type=password]")
        page.locator("dialog input").fill("mv_nobody")
        page.get_by_role("button", name="Use it").click()
        page.wait_for_selector("dialog[open] >> text=The key is unknown, or was revoked.")
        page.locator("dialog input").fill(key)
        page.get_by_role("button", name="Use it").click()
        page.wait_for_selector("text=2 collections")
        assert "This server refuses changes." in page.locator(".card").last.inner_text()


@pytest.mark.parametrize("junk", ["%E0%A4%A", "__proto__", "constructor/x", "explore/%00%ff", "//"])
def test_anything_may_stand_behind_the_address(browser, address, junk):
    with opened(browser, address, f"#{junk}") as page:
        page.wait_for_selector("h1")


MARKUP = [
    "<img src=x onerror='window.harmed=1'>",
    "</li><script>window.harmed=2</script>",
    '"><svg onload=window.harmed=3>',
    "javascript:window.harmed=4",
    "{{harmed=5}}${window.harmed=5}",
    '=HYPERLINK("http://example.org","x")',
    "+1",
    " 12 ",
    "12",
    '"quoted"',
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A server whose ids and metadata were written to do harm, all of them duplicates."""
    root = tmp_path_factory.mktemp("hostile")
    told = [{"text": name, name: name, "n": 2**53 + 1, "list": [name]} for name in MARKUP]
    with memvec.open(root / "evil", dim=4) as made:
        made.add(np.tile([1.0, 0, 0, 0], (len(MARKUP), 1)), ids=MARKUP, metadata=told)
    with memvec.open(root / "large", dim=4) as made:
        made.add(np.tile([1.0, 0, 0, 0], (3, 1)), ids=[2**60, 2**60 + 1, 12])
    (root / "photos").mkdir()
    with running(ServerSettings(root, photos=root / "photos")) as url:
        yield url


def assert_unharmed(page):
    assert page.evaluate("window.harmed") is None
    assert page.locator("main script, main svg[onload], main [onerror], main img").count() == 0


def test_markup_in_ids_and_metadata_stays_text(browser, hostile):
    with opened(browser, hostile) as page:
        page.on("dialog", lambda shown: pytest.fail(shown.message))
        explore(page, "evil")
        until(page, f"document.querySelectorAll('#results .card').length === {len(MARKUP)}")
        names = page.locator("#results .card .name").all_text_contents()
        assert sorted(names) == sorted(MARKUP)
        assert set(page.locator("#results .card .text").all_text_contents()) == set(MARKUP)
        assert f"{2**53 + 1}" in page.locator("#results").inner_text()
        assert_unharmed(page)
        for number, name in enumerate(names):
            card(page, number).get_by_role("button", name="Why?").click()
            page.wait_for_selector("dialog[open]")
            assert name in page.locator("#dialog-title").text_content()
            page.get_by_role("button", name="Close").click()
            card(page, number).get_by_role("button", name="More like this").click()
            until(page, "/found in/.test(document.getElementById('status').textContent)")
            assert page.locator("#alert").is_hidden()
        page.locator("#why-id").fill(MARKUP[0] + "?")
        page.get_by_role("button", name="Explain").click()
        page.wait_for_selector("#alert:not([hidden])")
        assert MARKUP[0] in page.locator("#alert").text_content()
        assert_unharmed(page)


def test_markup_in_groups_stays_text_and_is_no_formula(browser, hostile):
    with opened(browser, hostile) as page:
        page.evaluate("location.hash = '#duplicates/evil'")
        page.get_by_role("button", name="Find duplicates").click()
        page.wait_for_selector("#groups section")
        names = page.locator("#groups .card .name").all_text_contents()
        assert sorted(names) == sorted(MARKUP)
        assert_unharmed(page)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export CSV").click()
        with saved.value.path().open(newline="") as file:
            cells = [row["id"] for row in csv.DictReader(file)]
        assert "'+1" in cells
        assert f"'{MARKUP[5]}" in cells
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_integers_beyond_two_to_the_53_are_not_rounded(browser, hostile):
    with opened(browser, hostile) as page:
        explore(page, "large")
        until(page, "document.querySelectorAll('#results .card').length === 3")
        names = page.locator("#results .card .name").all_text_contents()
        assert sorted(names) == sorted(map(str, (2**60, 2**60 + 1, 12)))
        at = names.index(str(2**60 + 1))
        card(page, at).get_by_role("button", name="More like this").click()
        until(page, "/found in/.test(document.getElementById('status').textContent)")
        assert page.locator("#query").input_value() == str(2**60 + 1)
        page.evaluate("location.hash = '#duplicates/large'")
        page.get_by_role("button", name="Find duplicates").click()
        page.wait_for_selector("#groups section")
        page.get_by_label("keep 12").check()
        page.get_by_label(f"keep {2**60}", exact=True).check()
        page.locator("#groups button.danger").click()
        page.locator("dialog button.danger").click()
        page.wait_for_selector("text=Deleted: 1 item.")
    with memvec.Client(hostile) as client:
        assert list(client.collection("large")) == [2**60, 12]


def test_api_page_lists_every_route(page, address):
    page.goto(f"{address}/docs")
    page.wait_for_selector("section.panel")
    assert "POST /v1/collections/{name}/range" in page.locator("main").inner_text()
