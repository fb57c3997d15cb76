"""How each engine speaks: the names and units of its metrics, one small file per dialect."""

from warmroute.engines.metrics import read_metrics
from warmroute.engines.vitals import Vitals

__all__ = ["Vitals", "read_metrics"]
