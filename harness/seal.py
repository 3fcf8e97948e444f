"""Sealing a session: one file that lists all others with their digests, and says whether the session is whole.

Without a key the seal shows that files were changed, lost or added by accident or by somebody who did not think of it:
whoever may write to the store can write another seal. With an operator's key (HMAC-SHA256) it shows that nobody
without that key did. It proves neither who measured nor that what was measured is true.

Not part of a call: `run` and the collector use it, readers check it.
"""

import hashlib
import hmac
import os
import stat

from proofcost.harness import procfs, settle, store
from proofcost.harness.clock import clocks
from proofcost.harness.decode import LineError, check_encoding, json_object
from proofcost.harness.record import Json, dumps
from proofcost.harness.session import SEAL_FILE
from proofcost.harness.version import SCHEMA

SIGNATURE = "hmac_sha256"
_LIMIT_BYTES = 1 << 30
_SEAL_MAX_BYTES = 1 << 26


def write(folder: str, session: str, collector: Json, why_incomplete: list[str], key: bytes | None) -> bool:
    """Seal what stands in a session's folder; False when it was sealed before. Raises OSError."""
    files: list[Json] = []
    listing = hashlib.sha256()
    unfinished = 0
    for name in sorted(os.listdir(folder)):
        if name == SEAL_FILE:
            continue
        content = _content(folder, name)
        if content is None:
            why_incomplete = [*why_incomplete, f"{name} cannot be read"]
            continue
        digest = hashlib.sha256(content).hexdigest()
        listing.update(f"{digest}  {name}\n".encode())
        files.append({"name": name, "size_bytes": len(content), "sha256": digest})
        if name.endswith(".jsonl") and not name.endswith(".settled.jsonl"):
            unfinished += settle.FINISHED not in content
    if unfinished:
        why_incomplete = [*why_incomplete, f"{unfinished} without `finished`"]
    reasons: list[Json] = [*why_incomplete]
    seal: dict[str, Json] = {
        "schema": SCHEMA,
        "event": "sealed",
        "session": session,
        "clocks": clocks(),
        "complete": not reasons,
        "incomplete": reasons,
        "collector": collector,
        "files": files,
        "sha256": listing.hexdigest(),
    }
    seal[SIGNATURE] = None if key is None else sign(seal, key)
    return store.write_new(f"{folder}/{SEAL_FILE}", seal)


def _content(folder: str, name: str) -> bytes | None:
    """A regular file's content; whoever hands a folder over may have put anything there."""
    try:
        if not stat.S_ISREG(os.lstat(f"{folder}/{name}").st_mode):
            return None
    except OSError:
        return None
    return procfs.read_file(f"{folder}/{name}", _LIMIT_BYTES)


def sign(seal: dict[str, Json], key: bytes) -> str:
    """HMAC-SHA256 over the seal's own encoding without the signature, 64 hexadecimal digits."""
    unsigned = {name: value for name, value in seal.items() if name != SIGNATURE}
    return hmac.new(key, dumps(unsigned).encode("ascii"), hashlib.sha256).hexdigest()


class Checked:
    """What a session's seal says, and what is wrong with it (empty: nothing)."""

    __slots__ = ("problems", "seal", "signature")

    def __init__(self, seal: dict[str, Json]) -> None:
        self.seal = seal
        self.problems: list[str] = []
        # `verified`, `not checked` (signed, no key at hand), `unsigned`.
        self.signature = "unsigned"


def check(folder: str, key: bytes | None = None, gone: "dict[str, bytes] | None" = None) -> Checked | None:
    """Compare a session's folder with its seal; None when it has none. Never raises for what stands there.

    `gone`: what files held that are no longer there, by name, where the caller has it from elsewhere.
    """
    raw = procfs.read_file(f"{folder}/{SEAL_FILE}", _SEAL_MAX_BYTES)
    if raw is None:
        return None
    try:
        seal: dict[str, Json] = json_object(raw)
        check_encoding(seal)
    except LineError as error:
        checked = Checked({})
        checked.problems.append(f"{SEAL_FILE}: {error.what}")
        return checked
    checked = Checked(seal)
    _check_signature(checked, key)
    listed: dict[str, str] = {}
    entries = seal.get("files")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            listed[str(entry["name"])] = str(entry.get("sha256"))
    listing = hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in listed.items()).encode())
    if listing.hexdigest() != seal.get("sha256"):
        checked.problems.append("its list of files does not have the digest it states")
    try:
        there = {name for name in os.listdir(folder) if name != SEAL_FILE}
    except OSError as error:
        checked.problems.append(f"{folder}: {error.strerror}")
        return checked
    for name, digest in listed.items():
        content = _content(folder, name) if name in there else (gone or {}).get(name)
        if content is None:
            checked.problems.append(f"{name}: missing or unreadable")
        elif hashlib.sha256(content).hexdigest() != digest:
            checked.problems.append(f"{name}: not what was sealed")
    checked.problems += [f"{name}: added after the sealing" for name in sorted(there - listed.keys())]
    return checked


def _check_signature(checked: Checked, key: bytes | None) -> None:
    signature = checked.seal.get(SIGNATURE)
    if signature is None:
        if key is not None:
            checked.problems.append("it is not signed, and a key was given")
    elif key is None:
        checked.signature = "not checked"
    elif isinstance(signature, str) and hmac.compare_digest(signature, sign(checked.seal, key)):
        checked.signature = "verified"
    else:
        checked.signature = "wrong"
        checked.problems.append("its signature is not of this key")
