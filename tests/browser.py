"""Headless Chromium, driven through its driver by the W3C protocol: JSON over HTTP on this machine."""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage"
)
KEYS = {"right": "\ue014", "left": "\ue012", "end": "\ue010", "home": "\ue011", "space": " "}


class Browser:
    """A window; `with` closes it."""

    def __init__(self, profile: Path, size=(1000, 900), flags=()):
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        lines = iter(self.driver.stdout.readline, "")
        ports = (re.search(r"on port (\d+)", line) for line in lines if "successfully" in line)
        self.root = f"http://127.0.0.1:{next(ports)[1]}/session"
        arguments = [
            *FLAGS.split(),
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
            *flags,
        ]
        options = {"binary": CHROMIUM, "args": arguments}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        opened = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.root += "/" + opened["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        try:
            self._ask("DELETE", "")
        finally:
            self.driver.kill()
            self.driver.wait()
            self.driver.stdout.close()

    def _ask(self, verb, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.root + path, data, {"Content-Type": "application/json"}, method=verb
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path, query=""):
        self._ask("POST", "/url", {"url": f"{page.as_uri()}?{query}"})

    def run(self, script, *arguments):
        """Return what a script returns; one that starts with "await" may be waited for."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, *keys):
        pressed = [{"type": kind, "value": KEYS[key]} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": pressed}]})

    def click(self, selector):
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        self._ask("POST", f"/element/{next(iter(found.values()))}/click", {})

    def screenshot(self, path: Path):
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def complaints(self):
        """Return what the console holds."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def requests(self):
        """Return the addresses asked for, but for the page itself and what Chromium shows before."""
        entries = self._ask("POST", "/se/log", {"type": "performance"})
        sent = (json.loads(entry["message"])["message"] for entry in entries)
        urls = [
            one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("file:", "data:", "chrome"))]
