"""The built documentation in headless Chromium: accessible, complete, quiet; skipped where there is none."""

import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from browser import CHROMIUM, DRIVER, Browser

BUILT = Path(__file__).parents[1] / "docs" / "_build"
AXE = Path(os.environ.get("AXE", ""))
PAGES = [
    "index",
    "cheat_sheet",
    "course/3_stabilisation",
    "gallery/index",
    "gallery/separation/travelling_salesman",
    "reference/generated/cutplane.LevelBundle",
    "guide/formulations",
]
CLIPPED = """
return [...document.querySelectorAll(".bd-article pre")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent.split("\\n").sort((a, b) => b.length - a.length)[0]);
"""
THEME = """
document.head.insertAdjacentHTML("beforeend", "<style>* { transition: none !important; }</style>");
document.documentElement.dataset.theme = document.documentElement.dataset.mode = arguments[0];
"""
FINDINGS = """
return axe.run(document, {iframes: false}).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => one.id + ": " + one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")));
"""
FOUND = """
if (document.querySelector("#search-results h2")?.innerText !== "Search Results") return [];
return [...document.querySelectorAll("#search-results li > a")].map((one) => one.getAttribute("href"));
"""
FORMULAS = r"""
const wrong = [], text = (one) => (one.closest(".math") ?? one).textContent.trim().slice(0, 60);
const bare = (one, kind) =>
  one.localName === kind || (one.children.length === 1 && bare(one.firstElementChild, kind));
const find = (selector, fault, holds) => {
  for (const one of document.querySelectorAll(selector)) if (holds(one)) wrong.push(`${fault}: ${text(one)}`);
};
const letter = (one) => /^[a-zA-Z]$/.test(one.textContent.trim());
return (window.MathJax?.startup?.promise ?? Promise.resolve()).then(() => {
  find(".math", "not rendered", (one) => !one.querySelector("math"));
  find("merror, mtext[mathcolor], mjx-container svg text", "unknown command or symbol", () => true);
  find("mfrac", "operator as a part of a fraction", (one) =>
    [...one.children].some((part) => bare(part, "mo")));
  find("mfrac > mn:first-child", "number of two digits as a numerator", (one) =>
    /^\d\d/.test(one.textContent) && !bare(one.nextElementSibling, "mn"));
  find("mi + mi + mi", "word as a product of letters", (one) =>
    [one, one.previousElementSibling, one.previousElementSibling.previousElementSibling].every(letter));
  find(".bd-article :is(p, li, dd, td, figcaption, h1, h2, h3)", "TeX in the text", (one) =>
    [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && /\\[a-z]{2}/.test(node.data)));
  find("code", "escaped bar", (one) => one.textContent.includes("\\|"));
  return [...new Set(wrong)];
});
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (BUILT / "index.html").is_file(), reason="needs the documentation built in docs/_build"
    ),
    pytest.mark.xdist_group("browser"),
]


class Links(HTMLParser):
    """Names that a page can be linked at, and what it links to."""

    def __init__(self, page):
        super().__init__()
        self.names, self.targets = {""}, set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.names.add(value)
            elif value and (key == "href" or (key == "src" and tag == "img")):
                self.targets.add(value)


def test_every_link_inside_the_documentation_leads_somewhere():
    pages = {page: Links(page) for page in BUILT.rglob("*.html") if "_static" not in page.parts}
    assert len(pages) > 300
    broken = []
    for page, links in pages.items():
        for target in links.targets:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            file = (page.parent / unquote(url.path)).resolve() if url.path else page
            known = (
                pages[file].names if file in pages else {unquote(url.fragment)} if file.is_file() else set()
            )
            if unquote(url.fragment) not in known:
                broken.append(f"{page.relative_to(BUILT)}: {target}")
    assert broken == []


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Chromium and its driver")
    with Browser(tmp_path_factory.mktemp("profile"), size=(1280, 1000)) as window:
        yield window


@pytest.mark.parametrize("page", PAGES)
def test_no_code_is_clipped_and_the_console_is_silent(page, browser):
    browser.open(BUILT / f"{page}.html")
    assert browser.run(CLIPPED) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 1280
    assert [text for text in browser.complaints() if "SEVERE" in text or "error" in text.lower()] == []
    assert [url for url in browser.requests() if url.startswith("http")] == []


def test_every_formula_of_every_page_is_shown_as_it_is_meant(browser):
    pages = [
        page for page in sorted(BUILT.rglob("*.html")) if re.search(r'<math|class="math', page.read_text())
    ]
    assert len(pages) > 100
    wrong = {}
    for page in pages:
        browser.open(page)
        wrong[str(page.relative_to(BUILT))] = browser.run(FORMULAS)
    assert {page: found for page, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    "query, pages",
    {
        "SVM": ["LinearSVC", "KernelSVC"],
        "SVC": ["LinearSVC", "KernelSVC"],
        "lasso": ["L1", "LinearRegressor"],
        "ridge": ["L2", "LinearRegressor"],
        "subgradient": ["define_your_own", "1_subgradients_and_cuts"],
        "bundle": ["ProximalBundle", "LevelBundle"],
        "Benders": ["decomposition", "ValueFunction"],
        "column generation": ["decomposition", "LagrangianDual"],
        "quantile": ["losses.Quantile"],
        "dual value": ["certificates", "certificate.Certificate"],
    }.items(),
)
def test_the_search_lists_first_what_a_user_looks_for(query, pages, browser):
    browser.open(BUILT / "search.html", query=f"q={quote(query)}")
    deadline = time.monotonic() + 20.0
    while not (found := browser.run(FOUND)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for page in pages:
        assert any(one.partition(".html")[0].endswith(page) for one in found[:6]), found


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe.min.js of the npm package axe-core, named by AXE")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_there_is_no_serious_finding_about_accessibility(page, theme, browser):
    browser.open(BUILT / f"{page}.html")
    browser.run(THEME, theme)
    browser.run(AXE.read_text())
    assert browser.run(FINDINGS) == []
