"""The built site: links lead somewhere, nothing is loaded from elsewhere, a phone shows it.

The search finds. ``make docs`` builds the site; where it is not built, these tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pytest

from support.browser import CHROMIUM, FLAGS, Page, needs_chromium
from support.pages import DOCS

SITE = DOCS.parent / "site"
pytestmark = [
    pytest.mark.one_lane,
    pytest.mark.skipif(
        not SITE.is_dir() and not os.environ.get("STRICTREPLY_REQUIRE_SITE"),
        reason="not built: run make docs",
    ),
]


LOOK = """
<iframe id="frame" SANDBOX style="width: 400px; height: 800px; border: 0"></iframe>
<img src="/held">
<script>
  const pages = PAGES;
  const told = {};
  const frame = document.getElementById("frame");
  const tell = (told) => fetch("/told", { method: "POST", body: JSON.stringify(told) });
  const scrolls = (one) => ["auto", "scroll"].includes(getComputedStyle(one).overflowX);
  const isBoxed = (one) =>
    one.tagName !== "ARTICLE" && (scrolls(one) || isBoxed(one.parentElement));
  const look = (inner) => {
    inner.scrollingElement.scrollLeft = 1000;
    const cut = [...inner.querySelectorAll("article *")].filter((one) =>
      one.getBoundingClientRect().right > 401 && one.checkVisibility() && !isBoxed(one));
    return {
      phone: frame.clientWidth,
      scrolled: inner.scrollingElement.scrollLeft,
      cut: cut.map((one) => one.outerHTML.slice(0, 120)),
    };
  };
  frame.onload = () => {
    const inner = frame.contentDocument;
    if (!SEARCHING) {
      told[pages.shift()] = look(inner);
      return pages.length ? frame.src = `/${pages[0]}` : tell(told);
    }
    const watch = setInterval(() => {
      const found = [...inner.querySelectorAll("a.md-search-result__link")].map((one) => one.href);
      if (found.length) { clearInterval(watch); tell(found); }
    }, 50);
  };
  frame.src = `/${pages[0]}`;
</script>
"""
"""Opens pages of the site at 400 pixels and tells what is seen; until then the browser waits for a
picture.
"""


SAMPLE = (
    "index.html",
    "testing.html",
    "survival.html",
    "reference/client.html",
    "howto/roll-out.html",
)
READABLE = {"phone": 400, "scrolled": 0, "cut": []}


class _Site(ThreadingHTTPServer):
    """Serves the site, and keeps what a browser tells of it."""

    def __init__(self) -> None:
        """Bind to a free port of loopback."""
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(SITE)))
        self.seen = threading.Event()
        self.told: Any = None
        self.pages: tuple[str, ...] = ()

    def look(self, folder: Path, *pages: str, how: Literal["read", "still", "search"]) -> Any:
        """Open pages in a browser, one after the other, and return what it tells.

        They are read, or read without their scripts, or the results of a search are awaited.
        """
        self.seen.clear()
        self.told = None
        self.pages = pages
        url = f"http://127.0.0.1:{self.server_port}/look/{how}"
        command = [
            str(CHROMIUM),
            *FLAGS,
            f"--user-data-dir={folder / 'browser'}",
            "--dump-dom",
            url,
        ]
        subprocess.run(command, capture_output=True, check=True, timeout=120)

        return self.told


class _Handler(SimpleHTTPRequestHandler):
    """Serves files, the page that looks at another one, and the picture that holds the browser."""

    server: _Site

    # The base class names the argument so.
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""

    def do_GET(self) -> None:
        """Serve a file, or what looks at a page of them."""
        if self.path.startswith("/look/"):
            how = self.path.rpartition("/")[2]
            look = LOOK.replace("PAGES", json.dumps(self.server.pages))
            look = look.replace("SANDBOX", 'sandbox="allow-same-origin"' if how == "still" else "")
            self._answer(look.replace("SEARCHING", json.dumps(how == "search")))
        elif self.path == "/held":
            self.server.seen.wait(110)
            self._answer("")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """Keep what was told, and let the browser go."""
        self.server.told = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer("")
        self.server.seen.set()

    def _answer(self, content: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(content.encode())


@pytest.fixture(scope="module")
def site() -> Iterator[_Site]:
    """Serve the site on loopback."""
    with _Site() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_every_link_leads_somewhere() -> None:
    """Links and pictures name files of the site, and places that these have."""
    places: dict[Path, set[str]] = {}
    links: list[tuple[Path, str]] = []

    for path in SITE.rglob("*.html"):
        page = Page(path.read_text("utf-8"))
        places[path] = {value for name, value in page.attributes if name == "id" and value}
        links += [
            (path, value) for name, value in page.attributes if name in {"href", "src"} and value
        ]

    dead = []
    for path, link in links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or path.name == "404.html":
            continue

        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file() or (
            parts.fragment and parts.fragment not in places.get(target, set())
        ):
            dead.append(f"{path.relative_to(SITE)}: {link}")

    assert len(places) > 30
    assert dead == []


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No script, style, font or picture has a host: a reader without a network sees the same."""
    foreign = []
    for path in SITE.rglob("*.html"):
        text = path.read_text("utf-8")
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?(//[^\"' >]+)", text
        )
        foreign += [f"{path.name}: {url}" for _, url in loaded]

    styles = [
        path.name
        for path in SITE.rglob("*.css")
        if re.search(r"url\([\"']?(?:https?:)?//", path.read_text("utf-8"))
    ]
    assert foreign == []
    assert styles == []


def test_every_page_is_built() -> None:
    """Each page of docs/ is a page of the site."""
    built = {path.relative_to(SITE).with_suffix("").as_posix() for path in SITE.rglob("*.html")}
    assert {
        path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")
    } <= built


@needs_chromium
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("reply.truncated", "reference/codes.html"),
        ("max_reply_tokens", "reference/policy.html"),
        ("invents keys", "howto/invented-keys.html"),
        ("LangChain", "howto/"),
    ],
)
def test_the_search_finds(site: _Site, tmp_path: Path, words: str, page: str) -> None:
    """A code, a setting and a question lead to their pages."""
    found = site.look(tmp_path, f"index.html?q={words.replace(' ', '+')}", how="search")
    assert any(page in link for link in found), found


@needs_chromium
def test_it_is_readable_on_a_phone(site: _Site, tmp_path: Path) -> None:
    """At 400 pixels a page does not scroll sideways, nor is anything cut off."""
    told = site.look(tmp_path, *SAMPLE, how="read")
    assert told == dict.fromkeys(SAMPLE, READABLE)


@needs_chromium
def test_every_page_is_readable_on_a_phone(site: _Site, tmp_path: Path) -> None:
    """So it is on every page; without scripts, which makes a minute into seconds."""
    pages = [path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")]
    told = site.look(tmp_path, *pages, how="still")
    assert told.keys() == {*pages}
    assert {page: seen for page, seen in told.items() if seen != READABLE} == {}


def test_nothing_in_the_reference_is_empty() -> None:
    """Each name, field and method that the reference shows has words below it."""
    empty = []
    for path in (SITE / "reference").glob("*.html"):
        headings = re.split(r'<h\d id="([^"]+)" class="doc doc-heading">', path.read_text("utf-8"))
        empty += [
            name
            for name, below in zip(headings[1::2], headings[2::2], strict=True)
            if re.search(r'<div class="doc doc-contents ?(?:first)?">\s*(?:</div>|<div)', below)
        ]
    assert empty == []


def test_overloads_are_shown_once() -> None:
    """A call of many forms is shown by its keywords, not by each form."""
    page = (SITE / "reference" / "client.html").read_text("utf-8")
    assert page.count('id="strictreply.wrap"') == 1
    assert "doc-overloads" not in page


IDS = re.compile(
    r"\brequirements? [A-Z]\d"  # (requirement T14)
    r"|\((?:[TMRPX]\d{1,3}(?:, | to |\)))+"  # (M69, M72)
    r"|^\s*[TMRPX]\d{1,3}\s*$",  # a cell
    flags=re.MULTILINE,
)
"""The ids of requirements, which are for those who write this library."""


def test_no_id_of_a_requirement_is_shown() -> None:
    """A reader meets none of the ids by which the requirements are counted."""
    assert IDS.search("as of (M63, M64)")
    assert not IDS.search("MiniMax M1, P95 (A10, DeepSeek V3), a T4 GPU, gRPC (proposal A6)")
    texts = {path: Page(path.read_text("utf-8")).text for path in SITE.rglob("*.html")}
    assert [
        f"{path.name}: {found[0].strip()}"
        for path, text in texts.items()
        for found in IDS.finditer(text)
    ] == []


def test_titles_are_told_apart() -> None:
    """No two pages have the same title in a browser's tab."""
    pages = [path.read_text("utf-8") for path in SITE.rglob("*.html")]
    titles = [title for page in pages for title in re.findall(r"<title>(.*?)</title>", page)]
    assert len(titles) == len(pages)
    assert sorted(titles) == sorted({*titles})


def test_each_page_leads_on() -> None:
    """A page has the next or the previous one at its foot, and the version at its head."""
    pages = {path: path.read_text("utf-8") for path in SITE.rglob("*.html")}
    assert [path for path, page in pages.items() if 'class="site-version"' not in page] == []
    last = [path.name for path, page in pages.items() if "md-footer__link--" not in page]
    assert last == ["404.html"]
