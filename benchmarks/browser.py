"""A headless Chromium to click in and to time, over its DevTools protocol on a pair of pipes: no driver, no port."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import select
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

CHROMIUM = shutil.which("chromium")
_DEADLINE_S = 60.0


def _pipe() -> tuple[int, int]:
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]


class BrowserError(Exception):
    """The browser refused a command, or does not answer."""


class Seen(NamedTuple):
    """What the browser made of a page."""

    dom: str
    console: list[str]
    picture: bytes

    @property
    def drawn(self) -> str:
        """The page without its scripts."""
        return re.sub(r"<script.*?</script>", "", self.dom, flags=re.DOTALL)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        return struct.unpack(">II", self.picture[16:24])


class Browser:
    """One browser with one page. Use it as a context manager."""

    def __init__(self, scratch: Path, *, scripts: bool = True, flags: tuple[str, ...] = ()) -> None:
        to_read, self._to = _pipe()
        self._from, to_write = _pipe()
        # Chromium reads its descriptor 3 and writes to 4; ours lie above these.
        plumbing = f'exec 3<&{to_read} 4>&{to_write}; exec {to_read}<&- {to_write}>&-; exec "$@"'
        argv = [
            *(["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []),
            str(CHROMIUM),
            "--headless=new",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            f"--user-data-dir={scratch / 'profile'}",
            *flags,
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", plumbing, "bash", *argv],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self.console: list[str] = []
        self._events: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        if not scripts:
            self.send("Emulation.setScriptExecutionDisabled", value=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    _session: str | None = None

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to one command."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            read = os.read(self._from, 1 << 20) if ready else b""
            if not read:
                raise BrowserError("the browser ended" if ready else f"it said nothing for {_DEADLINE_S:g} s")
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(each.get("value")) for each in params["args"]))
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Log.entryAdded":
            self.console.append(params["entry"]["text"])

    def size(self, width: int, height: int = 900) -> None:
        """Set the window's size in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, theme: str) -> None:
        """Set what the computer prefers: ``light`` or ``dark``."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self._events.clear()
        self.send("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._receive()

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; a promise's when it is kept."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        return self.ask(
            f"new Promise((keep, fail) => {{ const end = performance.now() + {_DEADLINE_S * 500}; const look = () => {{"
            f" const value = ({expression}); if (value) keep(value); else if (performance.now() > end)"
            " fail(new Error('it never came true')); else setTimeout(look, 20); }; look(); })"
        )

    def click(self, selector: str) -> None:
        """Click the middle of an element as a person would: it has to be there, in view and on top."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{found}.scrollIntoView({{block: 'center'}})")
        place = self.ask(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key: str, code: int) -> None:
        """Press and release a key, e.g. ``Enter`` (13) or ``Tab`` (9)."""
        text = {"Enter": "\r"}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
            )  # fmt: skip

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def look(
        self, page: Path, *, width: int = 1400, height: int = 2400, dark: bool = False, until: str = "true"
    ) -> Seen:
        """Open a page, wait until an expression is true in it, and return what became of it."""
        self.size(width, height)
        self.prefer("dark" if dark else "light")
        self.open("about:blank")
        self.console.clear()
        self.open(page.as_uri())
        self.until(f"!document.querySelector('.loading') && ({until})")
        return Seen(self.ask("document.documentElement.outerHTML"), list(self.console), self.picture())

    def picture(self, *, whole: bool = False) -> bytes:
        """Return a PNG of the window, or of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])
