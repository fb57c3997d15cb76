"""The page of all metrics is the one that a running router would write."""

from pathlib import Path

import pytest

from warmroute.metrics_reference import BEGIN, END, families, main, table, with_table

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"


async def test_the_page_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, table(await families())) == page, "run `make docs`"


async def test_every_family_is_explained():
    for family in await families():
        assert family.documentation.endswith("."), family.name
        assert family.samples, f"{family.name} has no sample before the first request"


def test_an_old_page_is_told_of_and_made_anew(tmp_path, capsys):
    page = tmp_path / "metrics.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main(["--check", str(page)]) == 1
    assert "out of date" in capsys.readouterr().err
    assert main([str(page)]) == 0
    assert main(["--check", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| name |")
    assert text.endswith(f"{END}\nafter\n")
    assert "| `warmroute_requests_total` | counter |" in text
    assert "| `warmroute_build_info` | gauge |" in text


def test_a_page_without_marks_is_no_page():
    with pytest.raises(ValueError, match="lacks"):
        with_table("text", "rows")
