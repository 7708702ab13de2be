"""What a run of one of MNN's tools was asked for, as far as a text that people captured tells. Pure.

Read from the command line at the head of a capture or behind a shell's prompt, and from the notes that people write
beside an output (lines that begin with ``# ``). A tool copies what it was asked for or says nothing at all, so that
only this tells whether it did it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.runners.lines import Line
from harness.runners.mnn_tools import BACKEND_CODES

# "benchmark" alone is a word of people's.
_TOOLS = (
    "llm_bench",
    "llm_demo",
    "MNNV2Basic",
    "ModuleBasic",
    "timeProfile",
    "backendTest",
    "GetMNNInfo",
    "benchmark.out",
)
# Where the tools for single models take the MNNForwardType, counted from the first argument.
_FORWARD_AT = {"MNNV2Basic": 3, "ModuleBasic": 3, "timeProfile": 2, "benchmark.out": 3, "backendTest": 1}
# Where they take how often to run, and how often they do where nobody tells.
_LOOPS_AT = {"MNNV2Basic": (1, 1), "ModuleBasic": (4, 0), "benchmark.out": (1, None)}
_COMMAND = re.compile(rf"(?:# ?command:|.*?[$#] |(?=\./)).*?\b(?:{'|'.join(map(re.escape, _TOOLS))})\b")
_SHELL = {"|", ">", ">>", "2>", "2>&1", "&&", ";", "&", "||", "<"}
# "requested backend: opencl", "llm backend: opencl", "backend_type=vulkan"; the first kind that is there counts.
_NOTES = tuple(
    re.compile(rf"(?:^|[\s,;({{\"']){words}backend(?:_type)?[\"']?\s*[:=]\s*[\"']?(?P<name>[A-Za-z]\w*)", re.IGNORECASE)
    for words in (r"(?:requested|asked)[ _]", r"llm[ _.]", r"")
)
_SEEN = re.compile(
    r"(?:backend\s*[:=]\s*(?P<backend>\w+)[\s,;]+)?(?:precision\s*[:=]\s*(?P<precision>\w+)[\s,;]+)?"
    r"(?:text|output|answer|reply|response)\s*(?:[:=]|is|was|looks)\s*(?P<quote>(?P<looks>[^\W\d_]+).*|.+)",
    re.IGNORECASE,
)
_GOOD = ("ok", "good", "fine", "correct", "right")
_BAD = ("garbled", "garbage", "gibberish", "nonsense", "mojibake", "乱码", "broken", "empty", "repeated", "wrong")
_EXIT = re.compile(r"(?:exit (?:status|code)|rc)\s*[:=]\s*(?P<code>-?\d{1,10})\b", re.IGNORECASE)
_REALLY = re.compile(
    r"(?:(?:actual(?:ly)?|real(?:ly)?|counted)\b[^:=]{0,30}tokens?\b[^:=]{0,20}[:=]|gen_seq_len\s*[:=]|\bonly)\s*"
    r"(?P<low>\d{1,9})(?:\s*(?:\.\.+|-|–|to)\s*(?P<high>\d{1,9}))?(?P<unit>\s*(?:new |generated )?tokens?\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TextSeen:
    """A person's note on a text: ``looks`` is what they call it, or ``quote`` what they copied of it."""

    backend: str | None
    precision: str | None
    looks: str | None
    quote: str
    line: str

    @property
    def good(self) -> bool:
        """Whether the person found the text right."""
        return self.looks in _GOOD


@dataclass(frozen=True)
class Asked:
    """What was asked for; ``None`` and empty are what nobody told.

    ``backends`` are MNN's names in small letters. ``generated`` are the fewest and the most tokens that really came
    out, where somebody counted them. ``seen`` are notes on texts.
    """

    tool: str | None = None
    backends: tuple[str, ...] = ()
    repeats: int | None = None
    exit_code: int | None = None
    generated: tuple[int, int] | None = None
    seen: tuple[TextSeen, ...] = ()


def read_asked(lines: Sequence[Line]) -> Asked:
    """Return what the command line and the notes of a capture tell."""
    commands = [command for line in lines if (command := command_of(line)) is not None]
    notes = [line.comment for line in lines if line.comment]
    tool, arguments = commands[0] if commands else (None, [])
    backends = _backends(tool, arguments) if tool is not None else ()
    seen = tuple(_seen(match, note) for note in notes if (match := _SEEN.search(note)) is not None)
    exits = [int(match["code"]) for note in notes if (match := _EXIT.search(note))]
    counts = [
        match
        for note in notes
        if (match := _REALLY.search(note)) and (match["unit"] or not match.group().lower().startswith("only"))
    ]
    return Asked(
        tool=tool,
        backends=backends or _noted(notes),
        repeats=_repeats(tool, arguments),
        exit_code=exits[0] if exits else None,
        generated=(int(counts[0]["low"]), int(counts[0]["high"] or counts[0]["low"])) if counts else None,
        seen=seen,
    )


def _seen(match: re.Match[str], note: str) -> TextSeen:
    word = (match["looks"] or "").lower()
    looks = word if word in _GOOD or word in _BAD else None
    return TextSeen(match["backend"], match["precision"], looks, "" if looks else match["quote"], note)


def command_of(line: Line) -> tuple[str, list[str]] | None:
    """Return the tool and its arguments of a line that holds a command."""
    if line.tag is not None or not _COMMAND.match(line.text):
        return None
    # A command for `adb shell` stands in quotes as a whole.
    words = line.text.replace('"', " ").replace("'", " ").split()
    for place, word in enumerate(words):
        file = word.rsplit("/", 1)[-1]
        name = file if file in _TOOLS else file.removesuffix(".out").removesuffix(".exe")
        if name in _TOOLS:
            arguments = words[place + 1 :]
            end = next((at for at, argument in enumerate(arguments) if argument in _SHELL), len(arguments))
            return name, arguments[:end]
    return None


def _backends(tool: str, arguments: Sequence[str]) -> tuple[str, ...]:
    if tool == "llm_bench":
        value = _option(arguments, "-a", "--backends") or "cpu"
        return tuple(dict.fromkeys(part.strip().lower() for part in value.split(",") if part.strip()))
    place = _FORWARD_AT.get(tool)
    if place is None or len(arguments) <= place:
        # llm_demo takes the backend from its config; the others take the CPU when they are told nothing.
        return ("cpu",) if place is not None and arguments else ()
    code = _number(arguments[place])
    return () if code is None else (BACKEND_CODES.get(code, f"type {code}"),)


def _repeats(tool: str | None, arguments: Sequence[str]) -> int | None:
    if tool == "llm_bench":
        return _number(_option(arguments, "-rep", "--n-repeat"))
    place, unless_told = _LOOPS_AT.get(tool or "", (0, None))
    return _number(arguments[place]) if 0 < place < len(arguments) else unless_told


def _option(arguments: Sequence[str], *names: str) -> str | None:
    for place, argument in enumerate(arguments[:-1]):
        if argument.replace("_", "-") in names:
            return arguments[place + 1]
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text) else None


def _noted(notes: Sequence[str]) -> tuple[str, ...]:
    for pattern in _NOTES:
        for note in notes:
            match = None if _SEEN.search(note) else pattern.search(note)
            if match is not None:
                return (match["name"].lower(),)
    return ()
