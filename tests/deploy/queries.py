"""The queries of deploy/, and the metrics that they name."""

import json
import re
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "warmroute.json"


def alerts() -> dict[str, str]:
    """Name of an alert -> its expression."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> list[tuple[str, str]]:
    """(title, expression) of each query on the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", [])]


def metrics_in(expression: str) -> set[str]:
    """The metrics of the router that an expression reads."""
    return set(re.findall(r"\bwarmroute_\w+", expression))
