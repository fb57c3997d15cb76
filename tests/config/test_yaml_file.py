"""YAML is read strictly, and an error is one line that names file and line."""

import time
from pathlib import Path
from typing import Any

import pytest

from warmroute.config.yaml_file import YamlError, read_tree


def write(directory: Path, text: str | bytes) -> Path:
    path = directory / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read_yaml(path: Path) -> Any:
    root = read_tree(path)
    return None if root is None else root.value()


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
        ("[" * 600, "x.yaml:1: nested more than 100 levels deep"),
        ("".join(" " * depth + "a:\n" for depth in range(600)), "x.yaml:100: nested more than 100 levels deep"),
        ("- " * 600, "x.yaml:1: nested more than 100 levels deep"),
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


def test_a_hundred_levels_are_read(tmp_path: Path) -> None:
    value = read_yaml(write(tmp_path, "[" * 99 + "1" + "]" * 99))
    for _ in range(99):
        (value,) = value
    assert value == 1


def test_deep_nesting_is_refused_before_it_takes_time(tmp_path: Path) -> None:
    path = write(tmp_path, "[" * 100_000)
    began = time.process_time()
    with pytest.raises(YamlError, match="nested more than 100 levels deep"):
        read_yaml(path)
    assert time.process_time() - began < 0.5  # PyYAML alone takes three seconds


def test_a_mapping_may_take_over_the_keys_of_another(tmp_path: Path) -> None:
    value = read_yaml(write(tmp_path, "- &a {x: 1, y: 2}\n- {<<: *a, y: 3}\n- {<<: [*a], x: 4}\n"))
    assert value == [{"x": 1, "y": 2}, {"x": 1, "y": 3}, {"x": 4, "y": 2}]


def test_lists_give_their_items_with_lines(tmp_path: Path) -> None:
    root = read_tree(write(tmp_path, "- {a: 1}\n\n- b\n"))
    assert root is not None
    assert root.is_list
    assert [(item.line, item.value()) for item in root.items()] == [(1, {"a": 1}), (3, "b")]
