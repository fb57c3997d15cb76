"""The generated settings page."""

from pathlib import Path

import pytest

from warmroute.config.options import all_options
from warmroute.config.reference import main, settings_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_in_the_documentation_is_what_the_tree_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page()


def test_every_option_has_a_row_with_its_flag_variable_and_meaning() -> None:
    page = settings_page()
    for option in all_options():
        assert f"| `{option.key}` | `--{option.flag}` | `{option.variable}` |" in page
        assert option.description.strip()


def test_check_tells_a_page_that_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reference" / "settings.md"
    assert main([str(path)]) == 0
    assert main(["--check", str(path)]) == 0
    path.write_text("old")
    assert main(["--check", str(path)]) == 1
    assert "out of date" in capsys.readouterr().err
