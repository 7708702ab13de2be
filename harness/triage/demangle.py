"""From a mangled name of C++ to the name that people write, without parameters: ``MNN::Session::resize``. Pure.

Itanium's C++ ABI, as Clang and GCC for Android write it. What templates were made of is left out: ``Holder<>::get``.
"""

from __future__ import annotations

import re

_LONGEST = 4000
_DEEPEST = 60
_OPERATORS = {
    "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "aw": " co_await", "ps": "+", "ng": "-",
    "ad": "&", "de": "*", "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|",
    "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=",
    "eO": "^=", "ls": "<<", "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
    "le": "<=", "ge": ">=", "ss": "<=>", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",",
    "pm": "->*", "pt": "->", "cl": "()", "ix": "[]", "qu": "?",
}  # fmt: skip
_STANDARD = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
_NUMBER = re.compile(r"\d+")
_SEQUENCE = re.compile(r"S[0-9A-Z]*_")
_TEMPLATE_PARAMETER = re.compile(r"T(?:L\d*__?)?\d*_")
_THUNK = re.compile(r"T(?:hn?\d+_|vn?\d+_n?\d+_)")
# Letters before types: const and its like, pointers, references, and what is made of several.
_COMPOUND = tuple("rVKPROCGTAFMu")
_DISCRIMINATOR = re.compile(r"_\d|__\d+_")
_LITERAL = re.compile(r"n?[0-9a-fp]*")
_SUFFIX = re.compile(r"(?:\.(?:llvm|part|isra|constprop|cold|lto_priv|__uniq)[.\w]*|@{1,2}\w[\w.]*)$")


class _OddError(Exception):
    """It is not written as names are, or not as this module knows."""


def plain(name: str) -> str:
    """Return a mangled name as people write it, others as they are."""
    bare = _SUFFIX.sub("", name)
    if not bare.startswith("_Z") or len(bare) > _LONGEST:
        return name
    try:
        return _Reader(bare[2:]).encoding()
    except (_OddError, RecursionError):
        return name


class _Reader:
    """Reads a mangled name from its begin on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        # What substitutions `S_`, `S0_`, … stand for, as far as a name can begin with them.
        self._seen: list[str] = []

    def encoding(self) -> str:
        """Return the name; what follows it, the types of its parameters, is not looked at."""
        if self._take_pattern(_THUNK):
            return self.encoding()
        return self._name()

    def _name(self) -> str:
        if self._take("N"):
            return self._nested()
        if self._take("Z"):
            return self._local()
        if self._take("St"):
            name = "std::" + self._unqualified("std")
        elif self._peek() == "S":
            name = self._substitution()
        else:
            name = self._unqualified("")
        if self._peek() == "I":
            self._seen.append(name)
            name += self._arguments()
        return name

    def _nested(self) -> str:
        while self._peek() in tuple("rVKRO"):
            self._at += 1
        parts = ""
        while not self._take("E"):
            char = self._peek()
            if char == "I":
                parts += self._arguments()
            elif char == "S" and not parts:
                parts = self._substitution()
                continue
            elif char in ("T", "D") and not parts:
                parts = self._type()
            elif self._take("M"):
                continue
            else:
                one = self._unqualified(parts)
                parts = f"{parts}::{one}" if parts else one
            self._seen.append(parts)
        if not parts:
            raise _OddError
        return parts

    def _local(self) -> str:
        inside = self.encoding()
        while not self._take("E"):
            self._type()  # of the function's parameters
        if self._take("s"):
            self._take_pattern(_DISCRIMINATOR)
            return inside + "::string literal"
        if self._take("d"):
            self._take_pattern(_NUMBER)
            self._want("_")
        name = self._name()
        self._take_pattern(_DISCRIMINATOR)
        return f"{inside}::{name}"

    def _unqualified(self, outer: str) -> str:
        """Return one part of a name; ``outer`` is what it stands in."""
        self._take("L")
        char = self._peek()
        if char.isdigit():
            name = self._source()
        elif outer and char in ("C", "D") and self._next(1) in tuple("0123456789I"):
            dies = char == "D"
            self._at += 2
            name = ("~" if dies else "") + re.sub(r"<>$", "", outer).rpartition("::")[2]
        elif self._take("Ut"):
            self._take_pattern(_NUMBER)
            self._want("_")
            name = "{unnamed}"
        elif self._take("Ul"):
            while not self._take("E"):
                self._type()
            self._take_pattern(_NUMBER)
            self._want("_")
            name = "{lambda}"
        elif self._take("cv"):
            name = f"operator {self._type()}"
        elif self._take("li"):
            name = f'operator""{self._source()}'
        else:
            operator = _OPERATORS.get(self._text[self._at : self._at + 2])
            if operator is None:
                raise _OddError
            self._at += 2
            name = f"operator{operator}"
        while self._take("B"):
            self._source()
        return name

    def _source(self) -> str:
        length = self._take_pattern(_NUMBER)
        if not length.strip("0") or len(length) > 4 or self._at + int(length) > len(self._text):
            raise _OddError
        name = self._text[self._at : self._at + int(length)]
        self._at += int(length)
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name

    def _substitution(self) -> str:
        known = _STANDARD.get(self._next(1))
        if known is not None:
            self._at += 2
            return known
        word = self._take_pattern(_SEQUENCE)
        if not word:
            raise _OddError
        place = 0 if word == "S_" else int(word[1:-1], 36) + 1
        return self._seen[place] if place < len(self._seen) else "?"

    def _arguments(self) -> str:
        """Take what stands between `I` and its `E`."""
        self._want("I")
        while not self._take("E"):
            self._argument()
        return "<>"

    def _argument(self) -> None:
        if self._take("L"):
            if self._take("_Z"):
                self.encoding()
                while not self._take("E"):
                    self._type()
                return
            self._type()
            self._take_pattern(_LITERAL)
            self._want("E")
        elif self._take("J"):
            while not self._take("E"):
                self._argument()
        elif self._take("X"):
            raise _OddError  # an expression: it may hold anything
        else:
            self._type()

    def _type(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _OddError
        try:
            return self._any_type()
        finally:
            self._depth -= 1

    def _any_type(self) -> str:
        """Take a type, and note what of it later substitutions count."""
        char = self._peek()
        if char == "D":
            return self._d_type()
        if char == "S" and self._next(1) != "t":
            name = self._substitution()
            if self._peek() != "I":
                return name
            name += self._arguments()
        elif char in tuple("NSZ") or char.isdigit():
            before = len(self._seen)
            name = self._name()
            if char == "N" and len(self._seen) > before:
                return name  # the last of its parts is the whole
        elif char in _COMPOUND:
            self._at += 1
            name = self._compound(char)
        elif char.islower():
            self._at += 1
            return char  # a type of the language counts nowhere
        else:
            raise _OddError
        self._seen.append(name)
        return name

    def _compound(self, char: str) -> str:
        """Take what follows the letter of a type that is made of others."""
        if char == "u":
            return self._source()
        if char == "T":
            self._at -= 1
            if not self._take_pattern(_TEMPLATE_PARAMETER):
                raise _OddError
            if self._peek() == "I":
                self._seen.append("T")
                self._arguments()
            return "T"
        if char == "F":
            while not self._take("E"):
                self._type()
            return "?"
        if char == "A":
            self._take_pattern(_NUMBER)
            self._want("_")
        elif char == "M":
            self._type()
        return self._type()

    def _d_type(self) -> str:
        """Take a type that begins with `D`."""
        kind = self._next(1)
        self._at += 2
        if kind in tuple("pO"):
            name = self._type()
        elif kind == "o":  # noexcept before a function
            return self._type()
        elif kind == "v":
            self._take_pattern(_NUMBER)
            self._want("_")
            name = self._type()
        elif kind in tuple("fdehiusanc"):
            return "?"
        elif kind == "F":
            self._take_pattern(_NUMBER)
            self._take("_")
            return "?"
        else:
            raise _OddError
        self._seen.append(name)
        return name

    def _peek(self) -> str:
        return self._next(0)

    def _next(self, distance: int) -> str:
        return self._text[self._at + distance : self._at + distance + 1]

    def _take(self, word: str) -> bool:
        found = self._text.startswith(word, self._at)
        self._at += len(word) if found else 0
        return found

    def _want(self, word: str) -> None:
        if not self._take(word):
            raise _OddError

    def _take_pattern(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]
