"""What a comparator says of itself: whether it has the measurement hook.

A comparator without the hook ignores an added `measurement_command` silently (its configuration is read field by
field), so the binary is asked before anybody relies on it: the key's name stands in a comparator that reads it.
"""

HOOK_KEY = b"measurement_command"
_BLOCK_BYTES = 1 << 20


def has_hook(path: str) -> bool:
    """Whether the comparator binary (or script) at `path` knows the measurement hook. Raises OSError."""
    tail = b""
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            if HOOK_KEY in tail + block:
                return True
            tail = block[-len(HOOK_KEY) :]
    return False
