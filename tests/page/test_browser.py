"""Reports in a real Chromium, opened from disk (``make test-report``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from milp_plan.report.page import report_text
from milp_plan.run import Settings, solve
from tests.face.kinds import PROBLEMS
from tests.report.plans import plan_of_two_devices, two_devices

from .runs import entry, grid, renamed

REASON = "reports are tested by make test-report, which has"
pytest.importorskip("bokeh", reason=f"{REASON} Bokeh")
browsers = pytest.importorskip("playwright.sync_api", reason=f"{REASON} Playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium: apt-get install chromium")

LOST = "</script><b>$$\\frac{a$$ 算子"
COLOURS = """() => {
  const inside = (node) => node.querySelector("canvas") ?? [...node.querySelectorAll("*")]
    .map((part) => part.shadowRoot && inside(part.shadowRoot)).find(Boolean);
  const canvas = inside(document.querySelectorAll(".panel")[1]), seen = new Set();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4)
    if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
  return [...seen];
}"""
"""Opaque colours of the first timeline."""
PLOT = "Bokeh.documents[0].get_model_by_name('plot-1-0')"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browsers.sync_playwright() as play:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = play.chromium.launch(
            executable_path=CHROMIUM, args=["--disable-gpu", *sandbox], timeout=120_000
        )
        yield browser
        browser.close()


class Opened:
    """A page, and everything that went wrong on it."""

    def __init__(self, browser: Any, file: Path, scheme: str = "light") -> None:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": 1300, "height": 900}, offline=True
        )
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.wrong: list[str] = []
        self.page.on(
            "console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else 0
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("requestfailed", lambda request: self.wrong.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked is drawn."""
        self.page.wait_for_function("Bokeh.documents[0].is_idle")
        self.page.evaluate("() => new Promise(r => requestAnimationFrame(() => setTimeout(r)))")

    def span(self) -> tuple[float, float]:
        start, end = self.page.evaluate(f"[{PLOT}.x_range.start, {PLOT}.x_range.end]")
        return start, end

    def pixels(self) -> str:
        """What the timeline looks like, as text."""
        self.settle()
        return self.page.locator(".plot").nth(1).screenshot().hex()

    def found(self) -> str:
        return self.page.locator("output").first.inner_text()

    def shot(self, name: str) -> None:
        """Keep a picture for people, where they ask for it."""
        folder = os.environ.get("REPORT_PICTURES")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "small.html"
    problem, plan = two_devices(), plan_of_two_devices()
    file.write_text(report_text([entry(problem, plan, "first"), entry(problem, plan, "second")]))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_and_draws_in_light_and_dark(chromium: Any, small: Path, scheme: str) -> None:
    opened = Opened(chromium, small, scheme)
    page = opened.page
    assert page.locator(".panel").count() == 7
    assert all(panel.locator("canvas").count() for panel in page.locator(".panel").all())
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate(f"{PLOT}.below[0].axis_label_text_color")
    light = ("rgb(255, 255, 255)", "#1a1a1a")
    assert (paper, ink) == (light if scheme == "light" else ("rgb(22, 24, 28)", "#e8e8e8"))
    colours = set(page.evaluate(COLOURS))
    assert {"0,114,178", "230,159,0", "86,180,233"} <= colours  # forward, backward, transfer
    before = opened.pixels()
    page.click("#theme")
    assert opened.pixels() != before
    opened.shot(f"small-{scheme}")
    assert opened.wrong == []


def test_it_zooms_by_buttons_wheel_and_keys(chromium: Any, small: Path) -> None:
    opened = Opened(chromium, small)
    page, panel = opened.page, opened.page.locator(".panel").nth(1)
    start, end = opened.span()
    picture = opened.pixels()
    panel.get_by_label("zoom in").click()
    near = opened.span()
    assert near[1] - near[0] == pytest.approx((end - start) / 2)
    assert opened.pixels() != picture
    panel.get_by_label("later").click()
    assert opened.span()[0] > near[0]
    panel.get_by_role("button", name="All").click()
    assert opened.span() == (start, end)
    panel.locator(".plot").focus()
    for key, smaller in (("+", True), ("ArrowRight", True), ("-", False), ("0", False)):
        page.keyboard.press(key)
        assert (opened.span()[1] - opened.span()[0] < end - start) == smaller, key
    box = panel.locator("canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"{PLOT}.x_range.end - {PLOT}.x_range.start < {end - start} * 0.99")
    page.keyboard.up("Control")
    assert opened.wrong == []


def test_hovering_tells_what_is_under_the_mouse(chromium: Any, small: Path) -> None:
    opened = Opened(chromium, small)
    canvas = opened.page.locator(".panel").nth(1).locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    opened.page.mouse.move(box["x"] + 180, box["y"] + 12)
    opened.page.mouse.move(box["x"] + 190, box["y"] + 12)
    for word in ("embed", "d0", "forward"):
        opened.page.locator(".bk-Tooltip").get_by_text(word, exact=True).first.wait_for()
    assert opened.wrong == []


def test_controls_are_reached_by_the_keyboard(chromium: Any, small: Path) -> None:
    opened = Opened(chromium, small)
    page = opened.page
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(() => { const at = document.activeElement; return at.dataset.do ?? at.type"
                " ?? at.id + at.className })()"
            )
        )
    assert {"search", "in", "out", "left", "right", "all", "critical", "plot"} <= set(reached)
    page.locator("input[type=search]").first.focus()
    page.keyboard.type("embed")
    assert opened.found().startswith("1 of 2: embed (forward) on d0")
    page.keyboard.press("Enter")
    assert opened.found().startswith("2 of 2: embed.dx@0")
    page.keyboard.type("xyz")
    assert opened.found() == "nothing of this name"
    check = page.locator("input[data-do=critical]").first
    shown = opened.pixels()
    check.focus()
    page.keyboard.press("Space")
    assert opened.pixels() != shown
    assert opened.wrong == []


def test_strange_names_are_shown_as_they_are(chromium: Any, tmp_path: Path) -> None:
    problem, plan = renamed(LOST, two_devices(), plan_of_two_devices())
    file = tmp_path / "strange.html"
    file.write_text(report_text([entry(problem, plan, LOST)]))
    opened = Opened(chromium, file)
    assert opened.page.title() == LOST
    assert opened.page.locator("h2").last.inner_text() == LOST
    assert opened.page.locator("main b").count() == 0
    opened.page.fill("input[type=search]", "算子")
    assert opened.found().startswith(f"1 of 2: {LOST}")
    opened.shot("strange")
    assert opened.wrong == []


def test_sixteen_devices_of_two_thousand_operators(
    chromium: Any, tmp_path: Path, record_property: Any
) -> None:
    file = tmp_path / "large.html"
    problem, plan = grid(16, 2_000)
    file.write_text(report_text([entry(problem, plan)]))
    assert file.stat().st_size < 8_000_000
    opened = Opened(chromium, file)
    page = opened.page
    page.fill("input[type=search]", "layer1234.d7")
    assert opened.found().startswith("1 of 1: layer1234.d7 (")
    opened.settle()
    assert page.evaluate(
        f"{PLOT}.renderers.find(r => r.name === 'found').data_source.data.name"
    ) == ["layer1234.d7"]
    start, end = opened.span()
    assert start < 1234 * 20 / 1_000 < end  # µs
    opened.shot("large-found")
    times = page.evaluate(
        f"""async () => {{ const range = {PLOT}.x_range, times = [];
        const [first, last] = range.bounds;
        for (let step = 0; step < 10; step++) {{ const began = performance.now();
          range.setv({{ start: first + step, end: last - step }});
          await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
          times.push(performance.now() - began) }}
        return times }}"""
    )
    opened.settle()
    record_property("redraws_ms", [round(time) for time in sorted(times)])
    assert len(times) == 10
    opened.shot("large")
    assert opened.wrong == []


def test_every_kind_is_drawn(chromium: Any, tmp_path: Path) -> None:
    entries = []
    for name, problem in PROBLEMS.items():
        plan = solve(problem, Settings(time_limit_s=100, gap=0.5)).plan
        entries.append(entry(problem, plan, name))
    file = tmp_path / "kinds.html"
    file.write_text(report_text(entries))
    opened = Opened(chromium, file)
    assert opened.page.locator("section h2").count() == len(entries) + 2
    panels = opened.page.locator(".panel").all()
    assert len(panels) > 2 * len(entries)
    assert all(panel.locator("canvas").count() for panel in panels)
    opened.shot("kinds")
    assert opened.wrong == []
