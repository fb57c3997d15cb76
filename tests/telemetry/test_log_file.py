"""Files that lines are appended to: whole lines, none twice, none lost unsaid."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from warmroute.telemetry.log_file import AppendedFile, LineWriter

Batches = list[list[int]]


@given(st.lists(st.lists(st.integers(1, 40), max_size=6), max_size=8), st.integers(20, 60))
def test_files_are_full_of_whole_lines_in_order(tmp_path_factory, batches: Batches, max_bytes: int):
    directory = tmp_path_factory.mktemp("log")
    file = AppendedFile(directory / "log", max_bytes=max_bytes, kept=1000)
    written: list[bytes] = []
    for batch in batches:
        lines = [b"x" * size + b"%d\n" % len(written) for size in batch]
        written += lines
        file.write(lines)
    file.close()
    paths = sorted(directory.iterdir(), key=lambda path: -int(path.suffix[1:] or 0))
    assert b"".join(path.read_bytes() for path in paths) == b"".join(written)
    for path in paths:
        lines = path.read_bytes().splitlines(keepends=True)
        # One line alone may be longer than a file should be.
        assert len(lines) <= 1 or path.stat().st_size <= max_bytes
        assert all(line.endswith(b"\n") for line in lines)


def test_only_so_many_full_files_are_kept(tmp_path: Path):
    for kept, names in ((2, ["log", "log.1", "log.2"]), (0, ["log"])):
        directory = tmp_path / str(kept)
        directory.mkdir()
        file = AppendedFile(directory / "log", max_bytes=10, kept=kept)
        for number in range(10):
            file.write([b"%8d\n" % number])
        file.close()
        assert sorted(path.name for path in directory.iterdir()) == names
        assert (directory / "log").read_bytes() == b"       9\n"


def test_a_file_that_was_there_counts_with_its_size(tmp_path: Path):
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    file = AppendedFile(path, max_bytes=10, kept=1)
    file.write([b"after\n"])
    file.close()
    assert (path.read_bytes(), (tmp_path / "log.1").read_bytes()) == (b"after\n", b"before\n")


def test_a_line_that_was_cut_off_is_ended_before_others_follow(tmp_path: Path):
    """Its writer was killed: the line is lost, the next one is not."""
    path = tmp_path / "log"
    path.write_bytes(b"whole\ncut o")
    file = AppendedFile(path, max_bytes=17)
    assert file.write([b"next\n"]) == ""
    file.close()
    assert path.read_bytes() == b"whole\ncut o\nnext\n"


def test_flush_waits_for_what_was_added_and_close_writes_the_rest(tmp_path: Path):
    writer = LineWriter(AppendedFile(tmp_path / "log"), "test", print, delay=60)
    writer.add(b"one\n")
    writer.flush()
    assert (tmp_path / "log").read_bytes() == b"one\n"
    writer.add(b"two\n")
    writer.close()
    writer.close()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    assert writer.lost == 0


def test_trouble_is_told_once_and_lines_are_counted_until_it_is_over():
    told: list[str] = []
    writer = LineWriter(AppendedFile(Path("/dev/full")), "test", told.append, delay=60)
    for number in range(3):
        writer.add(b"%d\n" % number)
        writer.flush()
    assert writer.lost == 3
    assert len(told) == 1
    writer.close()


def test_lines_are_written_on_though_nobody_could_be_told_of_trouble(tmp_path: Path):
    path = tmp_path / "log"

    def broken_pipe(_: str) -> None:
        raise BrokenPipeError

    writer = LineWriter(AppendedFile(path), "test", broken_pipe, delay=60)
    path.unlink()
    path.mkdir()
    writer.add(b"lost\n")
    writer.flush()
    path.rmdir()
    writer.add(b"written\n")
    writer.flush()
    writer.close()
    assert path.read_bytes() == b"written\n"
    assert writer.lost == 1


def test_a_full_file_that_cannot_be_moved_away_loses_nothing(tmp_path: Path):
    (tmp_path / "log.1" / "in the way").mkdir(parents=True)
    told: list[str] = []
    writer = LineWriter(AppendedFile(tmp_path / "log", max_bytes=10, kept=1), "test", told.append, delay=60)
    for _ in range(3):
        writer.add(b"123456\n")
        writer.flush()
    writer.close()
    assert (tmp_path / "log").read_bytes() == b"123456\n" * 3
    assert (writer.lost, len(told)) == (0, 1)
