"""A dashboard or an alert that asks for a metric which nobody shows is silent for ever."""

import json

import pytest
import yaml
from tests.deploy.queries import ALERTS, DASHBOARD, alerts, metrics_in, panels

from warmroute.metrics_reference import families

_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
    "info": ("_info",),
}


async def test_every_metric_that_is_asked_for_is_shown():
    shown = {family.name + suffix for family in await families() for suffix in _SUFFIXES[family.type]}
    asked = {
        name: where
        for where, query in [*alerts().items(), *panels()]
        for name in metrics_in(query)
        if name not in shown
    }
    assert asked == {}
    assert metrics_in(json.loads(DASHBOARD.read_text())["templating"]["list"][1]["query"]) <= shown


def test_every_alert_says_what_is_wrong_and_what_to_do():
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]
            assert {"summary", "action"} == set(rule["annotations"]), rule["alert"]


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    boxes = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in boxes}) == len(boxes)
    taken = set()
    for panel in boxes:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize(("title", "query"), panels())
def test_every_query_is_of_the_routers_that_were_picked(title, query):
    assert 'instance=~"$instance"' in query


def test_connections_that_nobody_used_are_nothing_that_goes_wrong():
    """A deadline closes each of them: with every quiet minute the panel would show faults."""
    (query,) = (query for _, query in panels() if "warmroute_deadlines_total" in query)
    assert 'deadline!~"client_idle|upstream_idle"' in query
