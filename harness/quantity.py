"""Times and sizes as people write them: `90s`, `15m`, `512M`, `8Gi`; exact, in ns and bytes."""

TIME_UNITS = {"": 10**9, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9, "ms": 10**6}
BYTE_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}
_DIGITS_MAX = 40


def parse(text: str, units: dict[str, int]) -> int:
    """A positive number with a unit of `units`, in the smallest unit, rounded down.

    Raises ValueError with what is wrong (`not a ...`, `too small or too large`), without the text itself.
    """
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :]
    unit = unit.removesuffix("B") if unit not in units else unit
    whole_part, _, fraction = digits.partition(".")
    plain = digits.isascii() and whole_part.isdigit() and (fraction.isdigit() or digits == whole_part)
    if not plain or len(digits) > _DIGITS_MAX or unit not in units:
        known = ", ".join(filter(None, units))
        raise ValueError(f"not a positive number with a unit of {known}")
    value: int = int(whole_part + fraction) * units[unit] // 10 ** len(fraction)
    if not 0 < value < 1 << 63:
        raise ValueError("too small or too large")
    return value
