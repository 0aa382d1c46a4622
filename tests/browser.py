"""Headless Chromium for tests of pages: the W3C WebDriver protocol over urllib; Debian's chromium, chromium-driver.

A test module says ``pytest_plugins = ("browser",)`` and takes the fixture `browser`.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]

KEYS = {"Tab": 9, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}

CONTRAST = r"""
const rgb = text => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return [...numbers.slice(0, 3), numbers[3] ?? 1];
};
const linear = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const ground = node => {
  for (; node; node = node.parentElement) {
    const colour = rgb(getComputedStyle(node).backgroundColor);
    if (colour[3] > 0.99) return colour;
  }
  return [255, 255, 255, 1];
};
const found = [];
for (const node of document.querySelectorAll("body *")) {
  if (![...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())) continue;
  if (node.closest("script, style, noscript, .hidden, .middle, .high") || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  const a = light(rgb(node.namespaceURI.endsWith("svg") ? style.fill : style.color)), b = light(ground(node));
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), `${node.tagName}: ${node.textContent.slice(0, 40)}`]);
}
return found.sort((p, q) => p[0] - q[0]);
"""


class Browser:
    """One window."""

    def __init__(self, driver: str, chromium: str, profile: str) -> None:
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        port = None
        for line in self._process.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                port = found[1]
                break
        self._address = f"http://127.0.0.1:{port}/session"
        options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        made = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._address += "/" + made["sessionId"]

    def _send(self, method: str, path: str, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def devtools(self, command: str, **parameters):
        """A command of the Chrome DevTools protocol."""
        return self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, page: Path | str, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of this size; whatever was logged before is forgotten."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._send("POST", "/url", {"url": "about:blank"})
        self.complaints()
        self.requests()
        self._send("POST", "/url", {"url": Path(page).resolve().as_uri()})

    def run(self, script: str, *arguments):
        """What a piece of JavaScript returns."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def middle(self, selector: str) -> list[float]:
        """Where the first that matches is, scrolled into sight."""
        return self.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2];",
            selector,
        )

    def hover(self, x: float, y: float) -> None:
        """Move the pointer to this point of the window."""
        self.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.devtools("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """A key that is no letter, such as Tab or ArrowRight."""
        for kind in ("rawKeyDown", "keyUp"):
            self.devtools("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def complaints(self) -> list[str]:
        """What the console said since last asked."""
        return [entry["message"] for entry in self._send("POST", "/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """The addresses that were asked for since last asked."""
        events = [json.loads(e["message"])["message"] for e in self._send("POST", "/se/log", {"type": "performance"})]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith(("about:", "data:"))]

    def contrasts(self) -> list[tuple[float, str]]:
        """The contrast of every text with what lies behind it, the lowest first (WCAG 2 asks for 4.5)."""
        return [(ratio, what) for ratio, what in self.run(CONTRAST)]

    def screenshot(self, path: Path | str, full: bool = True) -> Path:
        """An image of the window, or of the whole page."""
        made = self.devtools("Page.captureScreenshot", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(made["data"]))
        return Path(path)

    def pdf(self, path: Path | str) -> Path:
        """The page in print."""
        Path(path).write_bytes(base64.b64decode(self.devtools("Page.printToPDF", printBackground=True)["data"]))
        return Path(path)

    def close(self) -> None:
        try:
            self._send("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait(10)
            self._process.stdout.close()


def start() -> tuple[Browser, str]:
    """A browser and its profile folder, or a skipped test where there is none."""
    chromium = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium here: apt-get install chromium chromium-driver")
    profile = tempfile.mkdtemp(prefix="isotherm-browser-")
    return Browser(driver, chromium, profile), profile


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium for all tests of this process."""
    window, profile = start()
    yield window
    window.close()
    for _ in range(20):  # its last processes may still be writing
        shutil.rmtree(profile, ignore_errors=True)
        if not os.path.exists(profile):
            break
        time.sleep(0.1)
