"""YAML is read strictly, and an error is one line that names file and line."""

from pathlib import Path

import pytest

from warmroute.config.yaml_file import YamlError, read_tree, read_yaml


def write(directory: Path, text: str | bytes) -> Path:
    path = directory / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_values_and_lines(tmp_path: Path) -> None:
    root = read_tree(write(tmp_path, "\na: 1\nb: [x, {y: 2}]\n"))
    assert root is not None
    assert [(entry.key, entry.line, entry.value.value()) for entry in root.entries()] == [
        ("a", 2, 1),
        ("b", 3, ["x", {"y": 2}]),
    ]


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "# nothing\n")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  - {c: 1, c: 2}\n", "x.yaml:3: key 'c' comes twice"),
        ("a: 1\nb: [\n", "x.yaml:3: "),
        ("a: 1\n--- \nb: 2\n", "x.yaml:2: but found another document"),
        ("a: !!python/object:os.system {}\n", "x.yaml:1: could not determine a constructor"),
        ("? [1]\n: 2\n? {}\n: 3\n", "x.yaml:1: found unhashable key"),
        (b"a: \xff\xfe\n", "x.yaml: not valid YAML"),
        ("[" * 600, "x.yaml: not valid YAML"),
        ("a: 2020-99-99\n", "x.yaml: not valid YAML"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(YamlError, match=r"nowhere\.yaml: cannot be read \(No such file"):
        read_yaml(tmp_path / "nowhere.yaml")
