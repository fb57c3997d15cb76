import pytest

from warmroute.control.rejections import Rejections


@pytest.fixture
def told(caplog):
    return lambda: [record.getMessage() for record in caplog.records]


def test_engines_do_not_hide_each_other(told):
    rejections = Rejections()
    for _ in range(3):
        rejections.rejected("a", "x")
        rejections.rejected("b", "x")
    assert told() == ["registration of a is refused: x", "registration of b is refused: x"]


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first(told):
    rejections = Rejections()
    rejections.rejected("a", "x")
    for number in range(1023):
        rejections.rejected(str(number), "x")
    rejections.rejected("a", "x")  # remembered, and now the youngest
    rejections.rejected("one more", "x")
    rejections.rejected("a", "x")
    assert sum(line.startswith("registration of a ") for line in told()) == 1
    rejections.rejected("0", "x")
    assert sum(line.startswith("registration of 0 ") for line in told()) == 2
