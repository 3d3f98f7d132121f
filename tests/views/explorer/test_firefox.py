"""The page in Firefox, where that is installed: keys, links and knockouts, without errors."""

import json
import shutil
import socket
import subprocess
import time
from urllib.parse import urlencode

import pytest

import attnflow
from seen import TEXT
from serving import free_port

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(FIREFOX is None, reason="Firefox is not installed"),
]
SECONDS = 120  # for a start, and for a wait that ends at once unless something is wrong
COMPLAINTS = """
    const messages = Services.console.getMessageArray();
    Services.console.reset();
    return messages
        .filter((each) => each instanceof Ci.nsIScriptError && !(each.flags & 1))
        .filter((each) => /^(file|http):/.test(each.sourceName))
        .map((each) => each.errorMessage);
"""
UNTIL = """
    const done = arguments[arguments.length - 1];
    const holds = new Function(`return ${arguments[0]}`);
    (function look() { holds() ? done(true) : requestAnimationFrame(look); })();
"""


class Firefox:
    """A page of Firefox, by Marionette: lengths and JSON over a socket."""

    def __init__(self, port):
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "Firefox did not start"
                time.sleep(0.1)
        self.file = self.socket.makefile("rb")
        self.read()
        self.count = 0
        self.ask("WebDriver:NewSession", {"timeouts": {"script": 1000 * SECONDS}})

    def close(self):
        self.file.close()
        self.socket.close()

    def read(self):
        size = b""
        while not size.endswith(b":"):
            size += self.file.read(1)
        return json.loads(self.file.read(int(size[:-1])))

    def ask(self, command, given=None):
        self.count += 1
        message = json.dumps([0, self.count, command, given or {}]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, number, error, found = self.read()
        assert (number, error) == (self.count, None)
        return found.get("value") if isinstance(found, dict) else found

    def goto(self, address):
        self.ask("WebDriver:Navigate", {"url": address})

    def run(self, script):
        return self.ask("WebDriver:ExecuteScript", {"script": f"return {script}", "args": []})

    def wait_for(self, condition):
        assert self.ask("WebDriver:ExecuteAsyncScript", {"script": UNTIL, "args": [condition]})

    def press(self, key):
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": keys}]
        self.ask("WebDriver:PerformActions", {"actions": actions})

    def complaints(self):
        self.ask("Marionette:SetContext", {"value": "chrome"})
        found = self.ask("WebDriver:ExecuteScript", {"script": COMPLAINTS, "args": []})
        self.ask("Marionette:SetContext", {"value": "content"})
        return found


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    profile, port = tmp_path_factory.mktemp("firefox"), free_port()
    (profile / "user.js").write_text(f'user_pref("marionette.port", {port});')
    program = subprocess.Popen(
        [
            *(FIREFOX, "--headless", "--no-remote", "--marionette", "--remote-allow-system-access"),
            *("--profile", str(profile), "about:blank"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        page = Firefox(port)
        yield page
        page.close()
    finally:
        program.terminate()
        program.wait(SECONDS)


def test_complaints_are_seen(firefox, tmp_path):
    (tmp_path / "wrong.html").write_text("<!doctype html><script>nothing()</script>")
    firefox.goto((tmp_path / "wrong.html").as_uri())
    assert firefox.complaints() == ["ReferenceError: nothing is not defined"]


def test_a_saved_page(firefox, classifier, tmp_path):
    view = attnflow.explore(TEXT, classifier, edges="attention", method="rollout")
    firefox.goto(view.save(tmp_path / "view.html").as_uri())
    firefox.wait_for("document.querySelector('.token.traced')")
    firefox.run("document.querySelector('[name=method][value=flow]').click()")
    firefox.wait_for("document.querySelector('main').textContent.includes('Attention flow from')")
    assert "method=flow" in firefox.run("location.hash")
    firefox.run("document.querySelector('.token[tabindex=\"0\"]').focus()")
    before = firefox.run("document.activeElement.textContent")
    firefox.press("\ue014")  # the arrow to the right
    assert firefox.run("document.activeElement.textContent") != before
    firefox.press("t")
    firefox.wait_for("document.activeElement.classList.contains('traced')")
    firefox.run("history.back()")
    firefox.wait_for("!document.activeElement.classList.contains('traced')")
    assert firefox.run("document.querySelectorAll('.graph path').length") > 0
    assert firefox.complaints() == []


def test_a_served_page(firefox, address):
    firefox.goto(f"{address}/#{urlencode({'edges': 'attention', 'text': TEXT})}")
    firefox.wait_for("document.querySelector('.token.traced')")
    asked = urlencode({"edges": "attention", "text": "the keys", "mode": "knockout"})
    firefox.run(f"location.assign({json.dumps(f'{address}/#{asked}')})")
    firefox.wait_for("document.querySelectorAll('.strip .token').length === 4")
    firefox.run("document.querySelectorAll('.token')[2].click()")
    said = "document.querySelector('.knockout-card .verified').textContent"
    firefox.wait_for(f"{said}.includes('random')")
    assert firefox.complaints() == []
