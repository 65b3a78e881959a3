"""The pages in headless Chromium: what they show, that nothing of a hostile carton runs, and the form of a server.

    CARTON=target/debug/carton python -m pytest carton-card/tests/browser.py

The program also serves the example `digits`, with a token for calls. `CARTON_TEST_SCREENSHOTS` names a folder for pictures of the pages.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import urlsplit

import pytest
import requests
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
CARTON = os.environ.get("CARTON", "carton")
TOKEN = "a-token-of-the-browser-tests"

#: What must not run sets this variable.
ATTACK = "window.hostile=1"
HOSTILE = f'"\'></style></script><script>{ATTACK}</script><img src=x onerror={ATTACK}><svg onload={ATTACK}>'

DESCRIPTION = rf"""
# Hostile

<script>{ATTACK}</script>
<img src=x onerror={ATTACK}>
<svg><script>{ATTACK}</script></svg>
<iframe srcdoc="<script>top.hostile=1</script>"></iframe>
<iframe src="javascript:top.hostile=1"></iframe>
<object data="data:text/html,<script>top.hostile=1</script>"></object>
<style>@import "http://attacker.invalid/style.css"; body {{ display: none }}</style>
<link rel="stylesheet" href="http://attacker.invalid/style.css">
<meta http-equiv="refresh" content="0;url=http://attacker.invalid/">
<base href="http://attacker.invalid/">
<form action="http://attacker.invalid/"><input autofocus onfocus={ATTACK}></form>
<details open ontoggle={ATTACK}><summary>x</summary></details>
<math><mtext><table><mglyph><style><img src=x onerror={ATTACK}>

Inline <img src=x onerror={ATTACK}> and <b onmouseover={ATTACK}>b</b>.

[link](javascript:{ATTACK}) [link](java&#115;cript:{ATTACK}) [link](data:text/html,<script>{ATTACK}</script>)
[link](https://example.com/"onclick="{ATTACK}) <javascript:{ATTACK}>

![a picture](http://attacker.invalid/picture.png) ![svg](@misc/attack.svg) ![html](@misc/attack.png)
![x" onerror="{ATTACK}](@misc/picture.png)

<!-- never ends <script>{ATTACK}</script>
"""

#: A picture of one pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{ATTACK}"><script>{ATTACK}</script></svg>'.encode()


def run(*arguments: str | Path) -> str:
    return subprocess.run([CARTON, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the cache, the runners or the configuration of the user."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "config.toml").touch()
    os.environ["CARTON_CACHE_DIR"] = str(folder / "cache")
    os.environ["CARTON_RUNNER_DIR"] = str(folder / "runners")
    os.environ["CARTON_CONFIG_PATH"] = str(folder / "config.toml")


@pytest.fixture(scope="session")
def digits_card(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("digits")
    carton, page = folder / "digits.carton", folder / "digits.html"
    run("pack", DIGITS / "model.onnx", "--metadata", DIGITS / "carton.toml", "-o", carton)
    run("info", carton, "--html", page)
    return page.as_uri()


@pytest.fixture(scope="session")
def hostile_card(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    text, name = json.dumps(HOSTILE), json.dumps('"><script>window.hostile=1</script>')
    metadata = f"""
spec_version = 1
model_name = {text}
short_description = {text}
model_description = {json.dumps(DESCRIPTION)}
license = {text}
homepage = "javascript:{ATTACK}"
repository = {text}

[[input]]
name = {text}
dtype = "float32"
shape = [{name}, 1, 8, 8]
description = {text}

[[output]]
name = {text}
dtype = "string"
shape = "*"

[[self_test]]
name = {text}
inputs = {{ {text} = "@tensor_data/x" }}

[[example]]
name = {text}
description = {text}
inputs = {{ {text} = "@tensor_data/x", svg = "@misc/attack.svg", html = "@misc/attack.png" }}
sample_out = {{ {text} = "@tensor_data/words", picture = "@misc/picture.png", sound = "@misc/sound.png" }}

[runner]
runner_name = "noop"
required_framework_version = "*"
runner_compat_version = 1
"""
    index = """
tensor = [
    { name = "x", dtype = "uint8", shape = [16, 16], file = "x.bin" },
    { name = "words", dtype = "string", shape = [1], file = "words.toml" },
]
"""
    files = {
        "carton.toml": metadata.encode(),
        "misc/attack.png": f"<html><script>{ATTACK}</script></html>".encode(),
        "misc/attack.svg": SVG,
        "misc/picture.png": PNG,
        "misc/sound.png": b"RIFF\x00\x00\x00\x00WAVEfmt ",
        "model/a": b"a",
        "tensor_data/index.toml": index.encode(),
        "tensor_data/words.toml": f"data = [{text}]".encode(),
        "tensor_data/x.bin": bytes(range(256)),
    }
    manifest = []
    for path, content in sorted(files.items()):
        (folder / "carton" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "carton" / path).write_bytes(content)
        manifest.append(f"{path}={hashlib.sha256(content).hexdigest()}\n")
    (folder / "carton" / "MANIFEST").write_text("".join(manifest))
    page = folder / "hostile.html"
    run("info", folder / "carton", "--html", page)
    return page.as_uri()


class Browser:
    """Headless Chromium, which records its requests."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, scheme: str = "light", width: int = 1000) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.set_window_size(width, 1000)
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.driver.get(url)

    def script(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition: Any) -> Any:
        return WebDriverWait(self.driver, 20).until(lambda _: condition())

    def requests(self) -> set[str]:
        """The requests since the page was opened, without `data:` URLs."""
        entries = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = {entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"}
        return {url for url in sent if not url.startswith("data:")}

    def messages(self) -> list[str]:
        """The messages of the console: errors of scripts, and what the policy has blocked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def screenshot(self, name: str) -> None:
        folder = os.environ.get("CARTON_TEST_SCREENSHOTS")
        if not folder:
            return
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        options = {"captureBeyondViewport": True, "clip": clip}
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(picture))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Selenium looks for another browser on the web if it may.
    os.environ["SE_OFFLINE"] = "true"
    options = webdriver.ChromeOptions()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "the tests need Chromium"
    options.binary_location = program
    for argument in ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage"]:
        options.add_argument(argument)
    if os.geteuid() == 0:
        # As root, Chromium does not start with its sandbox.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options)
    yield Browser(driver)
    driver.quit()


#: Headings that skip a level, pictures without an alternative text, controls without a label, headers of tables without a scope.
PROBLEMS = """
const problems = [];
if (document.documentElement.lang === "") problems.push("no language");
if (document.querySelectorAll("main").length !== 1) problems.push("no main landmark");
let last = 0;
for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
  const level = Number(heading.tagName[1]);
  if (level > last + 1) problems.push(`h${level} after h${last}: ${heading.textContent}`);
  last = level;
}
if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
for (const image of document.querySelectorAll("img:not([alt])")) problems.push(`no alternative text: ${image.outerHTML}`);
for (const control of document.querySelectorAll("input, select, textarea")) {
  if (control.labels.length === 0) problems.push(`no label: ${control.id}`);
}
for (const cell of document.querySelectorAll("th:not([scope])")) problems.push(`no scope: ${cell.textContent}`);
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push(`twice: ${id}`);
for (const name of ["aria-labelledby", "aria-describedby", "for"]) {
  for (const element of document.querySelectorAll(`[${name}]`)) {
    if (!document.getElementById(element.getAttribute(name))) problems.push(`leads nowhere: ${element.outerHTML}`);
  }
}
if (document.documentElement.scrollWidth > innerWidth) problems.push(`${document.documentElement.scrollWidth} wide`);
return problems;
"""

#: Texts whose contrast to what is behind them is lower than WCAG 2.2 demands of level AA.
LOW_CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (color) => {
  const linear = channels(color).slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const behind = (element) => {
  for (let around = element; around; around = around.parentElement) {
    const color = getComputedStyle(around).backgroundColor;
    if ((channels(color)[3] ?? 1) > 0) return color;
  }
  return "rgb(255, 255, 255)";
};
const low = [];
for (const element of document.querySelectorAll("body *")) {
  const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== "");
  if (!hasText || !element.checkVisibility() || element.disabled) continue;
  const [text, ground] = [luminance(getComputedStyle(element).color), luminance(behind(element))];
  const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
  if (contrast < 4.5) low.push(`${contrast.toFixed(2)}: ${element.outerHTML.slice(0, 200)}`);
}
return low;
"""


def assert_accessible(browser: Browser) -> None:
    assert browser.script(PROBLEMS) == []
    assert browser.script(LOW_CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 500])
def test_a_card_is_one_file(browser: Browser, digits_card: str, scheme: str, width: int) -> None:
    browser.open(digits_card, scheme, width)
    assert browser.find("h1").text == "digits"
    assert "one hidden layer" in browser.find(".prose").text
    picture = browser.find(".example img")
    assert browser.script("return document.querySelector('.example img').naturalWidth") == 64
    assert picture.get_attribute("alt") == "image: misc/digit.png"
    assert len(browser.all(".example .bars tbody tr")) == 10
    assert browser.requests() == {digits_card}
    assert browser.messages() == []
    assert_accessible(browser)
    ground = browser.script("return getComputedStyle(document.body).backgroundColor")
    assert (int(ground.removeprefix("rgb(").split(",")[0]) > 128) == (scheme == "light"), ground
    browser.screenshot(f"digits-{scheme}-{width}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_a_hostile_carton_runs(browser: Browser, hostile_card: str, scheme: str) -> None:
    browser.open(hostile_card, scheme)
    assert browser.find("h1").text.startswith("\"'></style></script><script>")
    # Events that a page waits for: the pointer and the focus on everything, and a moment for what loads.
    browser.script("""
        for (const element of document.querySelectorAll("*")) {
          element.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
          element.focus?.();
        }
        for (const details of document.querySelectorAll("details")) details.open = true;
    """)
    for link in browser.all("a"):
        assert urlsplit(link.get_attribute("href")).scheme in {"http", "https", "mailto"}
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    browser.driver.execute_async_script("setTimeout(arguments[0], 300)")
    assert browser.script("return window.hostile ?? null") is None
    assert browser.driver.current_url == hostile_card
    assert browser.requests() == {hostile_card}
    # Nothing was even attempted: the policy had nothing to block.
    assert browser.messages() == []
    for name in ["script", "iframe", "object", "embed", "form", "base", "link", "svg", "details[ontoggle]", "math", "input"]:
        assert browser.all(name) == [], name
    assert len(browser.all("style")) == 1 and len(browser.all("meta")) == 5
    assert browser.script("""
        return [...document.querySelectorAll("*")].flatMap((element) => [...element.attributes])
          .map((attribute) => attribute.name).filter((name) => name.startsWith("on") || name === "style");
    """) == []
    sources = {image.get_attribute("src").split(",")[0] for image in browser.all("img")}
    assert sources == {"data:image/png;base64"}
    assert len(browser.all("audio")) == 1
    assert_accessible(browser)
    browser.screenshot(f"hostile-{scheme}")


def test_the_policy_holds_without_escaping(browser: Browser, digits_card: str) -> None:
    """What would run if all of the attacks above got into the page."""
    browser.open(digits_card)
    browser.script("""
        const script = document.createElement("script");
        script.textContent = "window.hostile = 1";
        document.body.append(script);
        const holder = document.createElement("div");
        holder.innerHTML = '<img src=x onerror="window.hostile=1"><p style="color:red" id="styled">x</p>'
          + '<iframe srcdoc="<script>top.hostile=1</script>"></iframe>';
        document.body.append(holder);
    """)
    browser.driver.execute_async_script("setTimeout(arguments[0], 300)")
    assert browser.script("return window.hostile ?? null") is None
    assert browser.script("return getComputedStyle(document.getElementById('styled')).color") != "rgb(255, 0, 0)"
    assert any("Content Security Policy" in message for message in browser.messages())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the model `digits`, whose calls need a token and whose pages need none."""
    folder = tmp_path_factory.mktemp("server")
    run("pack", DIGITS / "model.onnx", "--metadata", DIGITS / "carton.toml", "-o", folder / "digits.carton")
    (folder / "tokens").write_text(TOKEN)
    options = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--self-test", "--token-file", "tokens", "--public-pages"]
    command = [str(Path(CARTON).resolve()) if os.sep in CARTON else CARTON, "serve", "digits.carton", *options]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stderr.readline, "")
        address = next(line.split("listening on ")[1].strip() for line in lines if "http://" in line)
        assert any(line.strip() == "ready" for line in lines)
        yield address
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def page(browser: Browser, server: str) -> Browser:
    """The page of the model `digits`, found as a user finds it."""
    browser.open(f"{server}/")
    link = next(link for link in browser.all("main a") if link.text == "digits")
    link.click()
    browser.wait(lambda: browser.all("#form:not([hidden])"))
    browser.find("#token").send_keys(TOKEN)
    return browser


def probabilities(browser: Browser) -> list[float]:
    """Sends the form with the keyboard, and returns the answer that the page shows."""
    browser.script("document.getElementById('answer').hidden = true")
    browser.find("#run").send_keys(Keys.ENTER)
    browser.wait(lambda: browser.find("#answer").is_displayed())
    return [float(cell.text) for cell in browser.all("#answer .bars .number")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_models_are_listed(browser: Browser, scheme: str, server: str) -> None:
    browser.open(f"{server}/", scheme)
    assert "digits" in [link.text for link in browser.all("main a")]
    assert browser.messages() == []
    assert_accessible(browser)
    browser.screenshot(f"index-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_stored_inputs_fill_in_the_form(page: Browser, scheme: str, server: str) -> None:
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    Select(page.find("#stored")).select_by_visible_text("Self-test: one digit")
    assert json.loads(page.find("#input-0").get_attribute("value"))[0][0][0][3] == pytest.approx(0.8125, abs=0.2)
    answer = probabilities(page)
    assert len(answer) == 10 and sum(answer) == pytest.approx(1, abs=1e-3)
    assert answer.index(max(answer)) == 2
    assert page.messages() == []
    page.script("document.querySelector('.code').open = true")
    assert_accessible(page)
    assert all(url.startswith(server) for url in page.requests())
    page.screenshot(f"page-{scheme}")


def test_the_example_is_a_picture(page: Browser) -> None:
    Select(page.find("#stored")).select_by_visible_text("Example: a two")
    page.wait(lambda: page.find("#input-0-canvas").is_displayed())
    answer = probabilities(page)
    assert answer.index(max(answer)) == 2


def test_a_picture_is_scaled_to_the_shape(page: Browser) -> None:
    page.find("#input-0-file").send_keys(str(DIGITS / "digit.png"))
    page.wait(lambda: page.find("#input-0-canvas").is_displayed())
    rows = json.loads(page.find("#input-0").get_attribute("value"))[0][0]
    assert [len(rows), len(rows[0])] == [8, 8]
    assert 0 <= min(map(min, rows)) and max(map(max, rows)) <= 1
    answer = probabilities(page)
    assert answer.index(max(answer)) == 2
    page.find("#input-0-invert").click()
    inverted = json.loads(page.find("#input-0").get_attribute("value"))[0][0]
    assert inverted[0][0] == pytest.approx(1 - rows[0][0], abs=1e-3)


def test_a_flat_list_gets_the_declared_shape(page: Browser) -> None:
    field = page.find("#input-0")
    field.clear()
    field.send_keys(json.dumps([0] * 128))
    page.find("#run").send_keys(Keys.ENTER)
    page.wait(lambda: page.find("#answer").is_displayed())
    assert "[2, 10]" in page.find("#answer h3").text
    assert len(page.all("#answer .numbers tbody tr")) == 2


@pytest.mark.parametrize("text", ["", "[1, 2", '["a"]', "[[1], [2, 3]]"])
def test_a_mistake_is_reported_beside_its_field(page: Browser, text: str) -> None:
    field = page.find("#input-0")
    field.clear()
    field.send_keys(text)
    page.find("#run").send_keys(Keys.ENTER)
    page.wait(lambda: page.find("[role=alert]").is_displayed())
    assert page.find("[role=alert]").text.startswith("image: ")
    assert field.get_attribute("aria-invalid") == "true"
    assert page.script("return document.activeElement.id") == "input-0"


def test_an_error_of_the_server_is_shown(page: Browser) -> None:
    field = page.find("#input-0")
    field.clear()
    field.send_keys("[[1, 2, 3]]")
    page.find("#run").send_keys(Keys.ENTER)
    page.wait(lambda: page.find("[role=alert]").is_displayed())
    assert page.find("[role=alert]").text.startswith("the server answered 4")


def test_the_snippets_make_the_same_call(page: Browser) -> None:
    Select(page.find("#stored")).select_by_visible_text("Self-test: one digit")
    shown = probabilities(page)
    page.script("document.querySelector('.code').open = true")
    environment = {**os.environ, "TOKEN": TOKEN}
    if shutil.which("curl"):
        script = page.find("#curl").text
        answer = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env=environment)
        data = json.loads(answer.stdout)["outputs"][0]["data"]
        assert data == pytest.approx(shown, abs=1e-4)
    script = page.find("#python").text
    assert requests.__name__ in script
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment)
    assert answer.stdout.startswith("probabilities [1, 10] [")


def test_json_is_written_as_python(page: Browser) -> None:
    value = {"true": [True, False, None, 1, -2.5e-3, 2**63], "text": 'null "true" \\ / \n \u00e4'}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).replace("/", "\\/")):
        written = page.script(f"return pythonLiteral({json.dumps(text)})")
        assert ast.literal_eval(written) == value


def test_a_slow_picture_replaces_no_later_choice(page: Browser) -> None:
    slow = "new Promise((resolve) => setTimeout(() => resolve(document.createElement('canvas')), 300))"
    page.script(f"window.done = null; fields[0].read({slow}, '').then(() => {{ window.done = 1; }}); fields[0].setText('[1]')")
    page.wait(lambda: page.script("return window.done"))
    assert page.find("#input-0").get_attribute("value") == "[1]"
    page.script(f"fields[0].read({slow}, '')")
    page.wait(lambda: page.find("#input-0").get_attribute("value") != "[1]")


def test_the_policy_of_the_server_holds(page: Browser) -> None:
    page.script("""
        const script = document.createElement("script");
        script.textContent = "window.hostile = 1";
        document.body.append(script);
    """)
    assert page.script("return window.hostile ?? null") is None
    assert any("Content Security Policy" in message for message in page.messages())


def test_everything_is_reached_with_the_keyboard(page: Browser) -> None:
    reached = []
    for _ in range(40):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        reached.append(page.script("return document.activeElement.id || document.activeElement.className"))
    wanted = ["skip", "stored", "input-0-file", "input-0-range", "input-0-invert", "input-0", "run"]
    # The field of the token has the focus at first.
    reached = [name for name in reached if name in wanted]
    assert reached[reached.index("skip") :][: len(wanted)] == wanted
