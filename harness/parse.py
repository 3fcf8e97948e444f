"""Reads the little JSON that a call must read itself: a judge's metrics file, a line that a program printed.

By hand and strict, because importing `json` costs more than everything else an entrance does. Narrower than JSON: no
fractions and no exponents (a record holds none), no key twice, no lone surrogate, no deep nesting. Who calls bounds
the size.
"""

from proofcost.harness.record import Json

DEPTH_MAX = 16
DIGITS_MAX = 20
_SPACE = " \t\n\r"
_DIGITS = "0123456789"
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def loads(raw: bytes) -> Json:
    """The value of a whole JSON text. Raises ValueError: what is wrong, and at which character."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    value, at = _value(text, _skip(text, 0), DEPTH_MAX)
    if at != len(text):
        raise _wrong("more than one value", at)
    return value


def _wrong(what: str, at: int) -> ValueError:
    return ValueError(f"{what} at character {at + 1}")


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _value(text: str, at: int, depth: int) -> tuple[Json, int]:
    """The value that starts at `at`, and where the next thing after it starts."""
    first = text[at : at + 1]
    if first in ("{", "["):
        if depth == 0:
            raise _wrong(f"nested deeper than {DEPTH_MAX}", at)
        value, at = _object(text, at, depth - 1) if first == "{" else _array(text, at, depth - 1)
    elif first == '"':
        value, at = _string(text, at)
    elif first and first in "-0123456789":
        value, at = _integer(text, at)
    else:
        word = next((word for word in _WORDS if text.startswith(word, at)), None)
        if word is None:
            raise _wrong("no JSON value", at)
        value, at = _WORDS[word], at + len(word)
    return value, _skip(text, at)


def _object(text: str, at: int, depth: int) -> tuple[Json, int]:
    made: dict[str, Json] = {}
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return made, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise _wrong("no key", at)
        key, after = _string(text, at)
        if key in made:
            raise _wrong(f"a key twice ({key[:40]!a})", at)
        at = _skip(text, after)
        if text[at : at + 1] != ":":
            raise _wrong("no colon", at)
        made[key], at = _value(text, _skip(text, at + 1), depth)
        at, ended = _next(text, at, "}")
        if ended:
            return made, at


def _array(text: str, at: int, depth: int) -> tuple[Json, int]:
    made: list[Json] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return made, at + 1
    while True:
        value, at = _value(text, at, depth)
        made.append(value)
        at, ended = _next(text, at, "]")
        if ended:
            return made, at


def _next(text: str, at: int, end: str) -> tuple[int, bool]:
    """Past a comma, or past the end of what it stands in."""
    mark = text[at : at + 1]
    if mark == end:
        return at + 1, True
    if mark != ",":
        raise _wrong(f"neither a comma nor {end}", at)
    return _skip(text, at + 1), False


def _integer(text: str, at: int) -> tuple[int, int]:
    end = at + 1
    while end < len(text) and text[end] in _DIGITS:
        end += 1
    if text[end : end + 1] in (".", "e", "E"):
        raise _wrong("a number that is no integer", at)
    digits = text[at:end].removeprefix("-")
    if not digits or (digits[0] == "0" and digits != "0") or len(digits) > DIGITS_MAX:
        raise _wrong("no integer that we take", at)
    return int(text[at:end]), end


def _string(text: str, at: int) -> tuple[str, int]:
    start = at
    out: list[str] = []
    at += 1
    while True:
        char = text[at : at + 1]
        if char == '"':
            break
        if char < " ":  # nothing at all, too
            raise _wrong("a string without end", start)
        if char != "\\":
            out.append(char)
            at += 1
            continue
        escape = text[at + 1 : at + 2]
        if escape == "u":
            out.append(_unicode(text, at))
            at += 6
        elif escape in _ESCAPES:
            out.append(_ESCAPES[escape])
            at += 2
        else:
            raise _wrong("an unknown escape", at)
    try:
        # Two escaped halves of one character become it; a half alone is an error.
        return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16"), at + 1
    except UnicodeDecodeError:
        raise _wrong("half a character", start) from None


def _unicode(text: str, at: int) -> str:
    digits = text[at + 2 : at + 6]
    if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise _wrong("an unknown escape", at)
    return chr(int(digits, 16))
