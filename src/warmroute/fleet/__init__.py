"""Who the workers are: registration, health, models, polled metrics, and which of them may get a request."""

from warmroute.fleet.broadcast import Answer
from warmroute.fleet.errors import FleetError, InvalidInstance, NotHealthy, UnknownWorker
from warmroute.fleet.fleet import Fleet
from warmroute.fleet.instance import InstanceInfo, read_instance
from warmroute.fleet.member import Member
from warmroute.fleet.static import static_instances
from warmroute.fleet.times import FleetTimes
from warmroute.fleet.verdict import Verdict

__all__ = [
    "Answer",
    "Fleet",
    "FleetError",
    "FleetTimes",
    "InstanceInfo",
    "InvalidInstance",
    "Member",
    "NotHealthy",
    "UnknownWorker",
    "Verdict",
    "read_instance",
    "static_instances",
]
