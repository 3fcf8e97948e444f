"""What names a place: no password is ever shown, and what cannot be one is a line before anything is done."""

from pathlib import Path

import pytest
from collecting import store_of

from proofcost.cli import main
from proofcost.reports import remote
from proofcost.reports.place import RemoteError, check_name, shown, without_secrets


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3://user:p/w@bucket/x", "s3://bucket/x"),
        ("sftp://u:p'w@host/x", "sftp://host/x"),
        ("s3://u:p w@b/x", "s3://b/x"),
        ("s3://u:p?w#w@b/x", "s3://b/x"),
        ("s3://u:p@w@b/x?token=1", "s3://b/x"),
        ("s3://u:p::w@b/x", "s3://b/x"),
        ("s3://u:p\nw@b/x", "s3://b/x"),
        ("simplecache::s3://u:pw@b/x", "simplecache::s3://b/x"),
        ("s3://bucket/day=1/x.parquet", "s3://bucket/day=1/x.parquet"),
    ],
)
def test_nothing_of_a_password_is_shown(url: str, told: str) -> None:
    assert shown(url) == told


def test_messages_lose_passwords_with_slashes_and_quotes() -> None:
    assert without_secrets("cannot reach s3://u:p/w@b/x or sftp://u:p'w@h/y") == "cannot reach s3://b/x or sftp://h/y"


NO_PLACES = {
    "": "the place has no name",
    "s3:/b/x": "a URL has two slashes, s3://...",
    "simplecache::s3://u:pw@b/x": "simplecache::s3://b/x: a chain of URLs (::) is no place",
    "s3://u:p/w@b/x::zip://y": "a chain of URLs (::) is no place",
    "http://u:pw@127.0.0.1:9/x": "http://127.0.0.1:9/x: a place must be listed, and http cannot",
    "HTTPS://127.0.0.1:9/x": "a place must be listed, and https cannot",
    "memory://x": "memory://x: ends with this process",
}


@pytest.mark.parametrize("url", NO_PLACES)
@pytest.mark.parametrize("command", [["push"], ["prune", "--pushed"], ["sql", "SELECT 1", "--data"]])
def test_what_is_no_place_is_refused_before_anything_is_done(
    url: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path / "one", "aa")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    named = [] if command[0] == "sql" else [str(store)]
    assert main(["store", *command, url, *named]) == 2
    told = capsys.readouterr()
    if not (url.startswith("memory") and command[0] == "sql"):
        assert told.err.startswith("proofcost: ")
        assert NO_PLACES[url] in told.err
    assert told.err.count("\n") == 1
    assert "pw" not in told.err
    assert "p/w" not in told.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_there_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "b").mkdir(parents=True)
    check_name("s3:/b")
    check_name(tmp_path / "s3:" / "new")
    with pytest.raises(RemoteError):
        check_name("s3:/c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Parameter validation failed:\nInvalid bucket name", "Parameter validation failed: Invalid bucket name"),
        ("no route\ndetails\n", "no route"),
        ("", "OSError"),
        ("cannot reach s3://u:p/w@b/x", "cannot reach s3://b/x"),
    ],
)
def test_what_went_wrong_is_one_line_that_says_it(text: str, said: str) -> None:
    assert remote._why(OSError(text)) == said


def test_what_a_package_makes_of_a_user_is_not_repeated() -> None:
    error = OSError('Invalid bucket name "me:s3cr3t@there" (s3cr3t)')
    assert remote._why(error, "me:s3cr3t") == 'Invalid bucket name "there" (***)'


@pytest.mark.parametrize("url", ["s3://me:pw@b/x", "gs://k@b", "S3://a:b@c", "s3://me:p/pw@b"])
def test_a_bucket_has_no_user(url: str) -> None:
    with pytest.raises(RemoteError, match="takes none from a URL") as caught:
        check_name(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://b/runs@night", "gs://b/a:b@c", "s3://arn:aws:s3:eu-west-1:1:accesspoint/p/a@b"])
def test_a_key_may_hold_an_at(url: str) -> None:
    check_name(url)
