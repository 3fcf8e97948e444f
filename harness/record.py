"""The record's encoding (docs/record.md): ASCII JSON by hand, reversible text, and what a measurement looks like.

By hand because importing `json` costs more than everything else an entrance does (7.5 ms against 1.2 ms).
"""

_HEX = "0123456789abcdef"
# Names, units and methods come some forty times in a record: text that needed no escape, and its quoted form.
_QUOTED: dict[str, str] = {}
_QUOTED_MAX = 100

MEASURED = "measured"
SAMPLED = "sampled"
LOWER_BOUND = "lower_bound"
UPPER_BOUND = "upper_bound"
DERIVED = "derived"
CONTRADICTED = "contradicted"
UNAVAILABLE = "unavailable"

Json = None | bool | int | str | list["Json"] | dict[str, "Json"]


def escape(raw: bytes) -> str:
    """Bytes from outside as text that any reader can take back to the same bytes (reading.unescape)."""
    if raw.isascii() and raw.isalnum():
        return raw.decode("ascii")
    out: list[str] = []
    for char in raw.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if char == "\\":
            out.append("\\\\")
        elif code < 0x20 or code == 0x7F:
            out.append("\\x" + _HEX[code >> 4] + _HEX[code & 15])
        elif 0xDC80 <= code <= 0xDCFF:
            byte = code - 0xDC00
            out.append("\\x" + _HEX[byte >> 4] + _HEX[byte & 15])
        else:
            out.append(char)
    return "".join(out)


def escape_text(text: str) -> str:
    """`escape` for what Python already decoded with its file system encoding (argv, paths)."""
    return escape(text.encode("utf-8", "surrogateescape"))


def _quote(text: str, out: list[str]) -> None:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        out.append('"' + text + '"')
        return
    out.append('"')
    for char in text:
        code = ord(char)
        if char == '"' or char == "\\":
            out.append("\\" + char)
        elif 0x20 <= code < 0x7F:
            out.append(char)
        elif code < 0x10000:
            out.append("\\u" + format(code, "04x"))
        else:
            code -= 0x10000
            out.append("\\u" + format(0xD800 + (code >> 10), "04x") + "\\u" + format(0xDC00 + (code & 0x3FF), "04x"))
    out.append('"')


def _encode(value: Json, out: list[str]) -> None:
    if isinstance(value, str):
        known = _QUOTED.get(value)
        if known is None:
            _quote(value, out)
            if len(out[-1]) == len(value) + 2 <= _QUOTED_MAX:
                _QUOTED[value] = out[-1]
        else:
            out.append(known)
    elif value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, int):
        out.append(str(value))
    elif isinstance(value, list):
        mark = "["
        for item in value:
            out.append(mark)
            _encode(item, out)
            mark = ","
        out.append("[]" if mark == "[" else "]")
    elif isinstance(value, dict):
        mark = "{"
        for key, item in value.items():
            out.append(mark)
            _encode(key, out)
            out.append(":")
            _encode(item, out)
            mark = ","
        out.append("{}" if mark == "{" else "}")
    else:
        raise TypeError(f"a record holds no {type(value).__name__}: {value!r}")


def dumps(value: Json) -> str:
    """One line of ASCII JSON without floats. Raises TypeError for anything a record must not hold."""
    out: list[str] = []
    _encode(value, out)
    return "".join(out)


def measurement(
    value: int | None, unit: str, method: str, status: str = MEASURED, reason: str | None = None
) -> dict[str, Json]:
    """One figure as it is stored. `unit` is ns, bytes or count; a value of None needs a reason."""
    return {"value": value, "unit": unit, "method": method, "status": status, "reason": reason}


def unavailable(unit: str, method: str, reason: str) -> dict[str, Json]:
    """A figure that could not be had, and why."""
    return {"value": None, "unit": unit, "method": method, "status": UNAVAILABLE, "reason": reason}
