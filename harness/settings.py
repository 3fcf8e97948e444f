"""The digest of a kernel's settings: its configuration without what it is to check.

A judge writes a configuration for each call, and it names the export, whose path is never the same twice. Written as
`bench` writes it (`settings_sha256`): canonical JSON, null for the path.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

from proofcost.harness.decode import plain, unescape
from proofcost.harness.merged import text_at, value_at

EXPORT_KEY = "export_file_path"


def settings_sha256(started: dict[str, Any]) -> str | None:
    """Of a `started` event; the digest of the file as it stands where that is no JSON object, None where none was kept.

    Left out is the value of `export_file_path`, and of any other key that names a file which the call was given.
    """
    kernel = value_at(started, "kernel")
    whole, kept = text_at(kernel, "config_sha256"), text_at(kernel, "config_text")
    if kept is None:
        return whole or None
    try:
        config = json.loads(unescape(kept), object_pairs_hook=_once)
        if type(config) is not dict:
            return whole or None
        given = _given(started)
        settings = {
            key: None if type(value) is str and (key == EXPORT_KEY or value in given) else value
            for key, value in config.items()
        }
        canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return whole or None
    return hashlib.sha256(canonical.encode()).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):  # which of the two its kernel takes nobody knows
        raise ValueError("a member twice")
    return made


def _given(started: dict[str, Any]) -> set[str]:
    """Paths of the files that the call was given: its inputs, and the arguments that are paths."""
    inputs, words = value_at(started, "inputs"), value_at(started, "argv", "head")
    paths = [one.get("path") for one in inputs if type(one) is dict] if type(inputs) is list else []
    paths += [word for word in words if type(word) is str and os.sep in word] if type(words) is list else []
    return set(_plain(paths))


def _plain(texts: Iterable[Any]) -> list[str]:
    return [plain(text) for text in texts if type(text) is str]
