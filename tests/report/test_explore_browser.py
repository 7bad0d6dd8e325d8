"""The explorer in headless Chromium: it moves, asks nobody, complains of nothing, and is fast."""

import json
import time

import numpy as np
import pytest
from browser import CHROMIUM, DRIVER, Browser

import cutplane as cut
from cutplane.report.explore.figure import module

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="needs Chromium and its driver: chromium, chromedriver"
    ),
]
STATE = """
const root = document.querySelector(".cx"), said = (one) => [...root.querySelectorAll(one)];
return {frame: Number(root.dataset.frame), drawn: said(".cx-moving").map((one) => one.innerHTML),
  words: said(".cx-said").map((one) => one.textContent), slider: root.querySelector("input").value,
  rate: Number(root.dataset.rate), milliseconds: Number(root.dataset.milliseconds),
  named: said("[role=img], input, button, [role=group]").every((one) => one.ariaLabel || one.innerText),
  colours: [getComputedStyle(root).color, getComputedStyle(root).backgroundColor],
  wide: document.documentElement.scrollWidth - innerWidth};
"""
SLIDE = """
const slider = document.querySelector(".cx input");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input", {bubbles: true}));
"""
EMBEDDED = """
const frame = document.querySelector("iframe");
frame.width = arguments[0];
return new Promise((done) => setTimeout(() => {
  const root = frame.contentDocument.querySelector(".cx");
  done([Number(root.dataset.frame), frame.offsetHeight, root.offsetHeight]);
}, 500));
"""
STYLES = """
const ended = (one) => [getComputedStyle(one).stroke, getComputedStyle(one).strokeDasharray];
return [...document.querySelectorAll(".cx figure svg:has(.cursor)")].map((chart) =>
  [...chart.querySelectorAll("g[clip-path] > path")].map(ended));
"""


@cut.risk(dim=2)
def distance(x):
    return np.abs(x - 0.3).sum() + x @ x, np.sign(x - 0.3) + 2 * x


@cut.separation_oracle
def disk(x):
    length = np.linalg.norm(x)
    return [] if length <= 1.0 + 1e-9 else [cut.HalfSpace(x / length, 1.0)]


class Spiral(cut.methods.Method):
    """A cut at each point of a spiral, and the best multipliers for them."""

    def step(self, run, state):
        k = state or 1
        run.query(2.0 * (1.0 - k / 2000) * np.array([np.cos(0.7 * k), np.sin(0.7 * k)]))
        run.mark("spiral", run.anchor.x, run.best.x)
        if k % 100 == 0:
            run.reduced()
        run.proceed()
        return cut.methods.Step("spiral", k + 1)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


PROBLEM = cut.Problem(distance, cut.L2(0.1), cut.Box(-2.0, 2.0) & disk)


LINE = cut.Problem(cut.risk(dim=1)(lambda x: (abs(x[0] - 1.0), np.sign(x - 1.0))), cut.L2(0.2))
PICTURES = {
    "plane": lambda: cut.explore(PROBLEM, cut.ProximalBundle(), tol=1e-6),
    "line": lambda: cut.explore(LINE, cut.BMRM(), tol=1e-6, x0=[-2.0]),
    "two": lambda: cut.explore(PROBLEM, methods=[cut.Kelley(), cut.LevelBundle()], tol=1e-6),
}


@pytest.mark.parametrize("name", PICTURES)
def test_controls_move_the_picture(browser, tmp_path, name):
    picture = PICTURES[name]()
    last = picture.frames - 1
    browser.open(picture.save(tmp_path / f"{name}.html"))
    states = [browser.run(STATE)]
    assert states[0]["frame"] == 0 and states[0]["named"] and states[0]["wide"] <= 0
    browser.run(SLIDE, last)
    states.append(browser.run(STATE))
    assert states[1]["frame"] == last and int(states[1]["slider"]) == last
    assert all(one != other for one, other in zip(states[0]["drawn"], states[1]["drawn"], strict=True))
    assert all("lower bound" in words for words in states[1]["words"])
    browser.click(".cx-bar button[aria-label=back]")
    assert browser.run(STATE)["frame"] == last - 1
    browser.click(".cx-bar button[aria-label=next]")
    browser.run("document.querySelector('.cx').focus()")
    for key, frame in (("home", 0), ("right", 1), ("left", 0), ("end", last)):
        browser.press(key)
        assert browser.run(STATE)["frame"] == frame, key
    browser.press("home")
    for event, frame in (("beforeprint", last), ("afterprint", 0)):  # paper has the last frame
        browser.run(f"dispatchEvent(new Event('{event}'))")
        assert browser.run(STATE)["frame"] == frame
    browser.press("home", "space")  # plays
    deadline = time.monotonic() + 10.0
    while browser.run(STATE)["frame"] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    browser.press("space")
    assert browser.run(STATE)["frame"] > 0
    assert browser.complaints() == [] and browser.requests() == []


def test_keys_work_on_a_fresh_page(browser, tmp_path):
    picture = PICTURES["plane"]()
    last = picture.frames - 1
    browser.open(picture.save(tmp_path / "fresh.html"))
    for key, frame in (("right", 1), ("right", 2), ("left", 1), ("end", last), ("home", 0)):
        browser.press(key)
        assert browser.run(STATE)["frame"] == frame, key
    browser.press("space")
    deadline = time.monotonic() + 10.0
    while browser.run(STATE)["frame"] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert browser.run(STATE)["frame"] > 0


def test_an_embedded_page_is_as_high_as_its_frame_and_shows_the_end(browser, tmp_path):
    picture = PICTURES["plane"]()
    path = tmp_path / "around.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><body>{picture._repr_html_()}</body>', "utf-8")
    browser.open(path)
    for width in (900, 420, 900):
        frame, height, inside = browser.run(EMBEDDED, width)
        assert frame == picture.frames - 1
        assert inside <= height <= inside + 10


@pytest.mark.parametrize("count", [3, 7])
def test_curves_of_all_methods_have_a_style_of_their_own(browser, tmp_path, count):
    methods = [cut.LevelBundle(kappa) for kappa in np.linspace(0.2, 0.8, count)]
    browser.open(cut.explore(PROBLEM, methods=methods, tol=1e-3).save(tmp_path / f"{count}.html"))
    gaps, bounds = browser.run(STYLES)
    assert len(gaps) == count and len(bounds) == 2 * count
    for styles in (gaps, bounds):
        assert all(stroke not in ("none", "") for stroke, _ in styles)
        assert len({tuple(style) for style in styles}) == len(styles)
    assert len({dash for _, dash in gaps}) == count  # without colour


def test_as_a_widget(browser, tmp_path):
    data = cut.explore(LINE, cut.BMRM(), tol=1e-6).data
    widget = module().replace("export default", "const widget =")
    shown = "widget.render({model: {get: () => (DATA)}, el: document.body});"
    page = tmp_path / "widget.html"
    dark = '<html data-theme="dark"><meta charset="utf-8"><body></body>'
    page.write_text(
        f'{dark}<script type="module">{widget}{shown.replace("DATA", json.dumps(data))}</script>', "utf-8"
    )
    browser.open(page)
    state = browser.run(STATE)
    assert state["frame"] == 0 and len(state["drawn"]) == 3
    ink, paper = (sum(map(int, colour[4:-1].split(","))) for colour in state["colours"])
    assert ink > paper  # as the notebook or page around it
    assert browser.complaints() == []


def test_2000_cuts_at_30_frames_a_second(browser, tmp_path):
    problem = cut.Problem(distance, cut.L2(0.1), cut.Box(-2.0, 2.0))
    picture = cut.explore(problem, Spiral(), max_iter=1999, tol=1e-12, probes=False)
    path = picture.save(tmp_path / "many.html")
    assert picture.frames == 2000 and path.stat().st_size < 300_000
    browser.open(path)
    took = browser.run(
        "const {go} = document.querySelector('.cx').explorer, took = [];"
        "for (let k = 1900; k < 2000; k++) { const began = performance.now(); go(k);"
        "document.body.getBoundingClientRect(); took.push(performance.now() - began); } return took;"
    )
    assert np.quantile(took, 0.1) < 1000 / 30  # others may compute meanwhile
    browser.run(SLIDE, 1900)
    browser.run("document.querySelector('.cx-bar button:nth-child(2)').click()")
    time.sleep(1.5)
    assert browser.run(STATE)["rate"] > 0.0  # painted too: 40 on two idle cores
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [360, 1280])
def test_dark_and_narrow(tmp_path, width):
    path = cut.explore(PROBLEM, cut.Kelley(), tol=1e-4).save(tmp_path / "cuts.html")
    flags = ["--blink-settings=preferredColorScheme=0", "--force-prefers-reduced-motion"]
    with Browser(tmp_path / "profile", (width, 800), flags) as window:
        window.open(path)
        state = window.run(STATE)
        assert state["wide"] <= 0
        ink, paper = (sum(map(int, colour[4:-1].split(","))) for colour in state["colours"])
        assert ink > paper
