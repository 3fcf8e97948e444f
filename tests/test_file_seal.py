"""The seal of a Parquet file: what is written reads back, and a byte that is another makes it none."""

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.reports.file_seal import MOST_BYTES, Seal, SealError, read_seal, seal_text

NAMES = st.from_regex(r"[0-9a-f]{1,40}\.[0-9]{1,3}\.parquet", fullmatch=True)
SEALS = st.builds(
    Seal, st.binary(max_size=8).map(lambda content: hashlib.sha256(content).hexdigest()), st.integers(0, (1 << 63) - 1)
)


@given(NAMES, SEALS)
def test_what_is_written_reads_back(name: str, seal: Seal) -> None:
    text = seal_text(name, seal)
    assert read_seal(name, text) == seal
    assert len(text) <= MOST_BYTES


@given(NAMES, SEALS, st.data())
def test_a_torn_or_changed_seal_is_none_or_tells_of_another_file(name: str, seal: Seal, data: st.DataObject) -> None:
    text = seal_text(name, seal)
    at = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(SealError):
        read_seal(name, text[:at])
    with pytest.raises(SealError):
        read_seal(name, text + text[: at + 1])
    changed = bytearray(text)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        found = read_seal(name, bytes(changed))
    except SealError:
        return
    assert found != seal, "a changed digit of the size or the digest is another seal"


@given(NAMES, SEALS, st.binary(max_size=200))
def test_other_bytes_are_none(name: str, seal: Seal, content: bytes) -> None:
    with pytest.raises(SealError):
        read_seal(name, content)
    with pytest.raises(SealError, match="another file"):
        read_seal(f"x{name}", seal_text(name, seal))


def test_sha256sum_takes_it(tmp_path: Path) -> None:
    content = b"some bytes"
    (tmp_path / "a.0.parquet").write_bytes(content)
    seal = Seal(hashlib.sha256(content).hexdigest(), len(content))
    (tmp_path / "a.0.parquet.sha256").write_bytes(seal_text("a.0.parquet", seal))
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "a.0.parquet.sha256"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.0.parquet: OK\n", "")


def test_a_line_of_sha256sum_alone_is_no_seal() -> None:
    """Anybody's checksums say nothing of whether a file was written whole before them."""
    with pytest.raises(SealError):
        read_seal("a.parquet", f"{'0' * 64}  a.parquet\n".encode())
