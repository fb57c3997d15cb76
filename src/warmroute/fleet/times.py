"""The fleet's fixed times. Configured ones (tick interval, probe timeout) are in the option tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from warmroute.fleet.silence import SilenceRules


@dataclass(frozen=True, slots=True)
class FleetTimes:
    """All in seconds.

    - `retry`: between two probes of a wanted worker that has never been healthy.
    - `register_spacing`, `register_limit`: between the probes of a new registration, and for all of them together. With
      `acquaintance`, the limit must stay below 5 s: that is when an engine gives up waiting for the answer.
    - `acquaintance`: longest wait for the models and metrics of a worker that is about to be routed to.
    - `expiry`: after this long without heartbeat and without a passed probe, a registered worker is removed.
    - `leave_check`, `housekeeping`: between two looks at leaving workers, and at everything else that falls due.
    - `hint_spacing`: least time between two extra probes that the data plane asked for.
    - `report_age`: a polled report lives at least this long, or three polls if that is longer.
    - `silence`: after how long a worker is suspicious, or stuck, that begins no answers.
    """

    retry: float = 1.0
    register_spacing: float = 0.2
    register_limit: float = 3.0
    acquaintance: float = 1.0
    expiry: float = 60.0
    leave_check: float = 0.05
    housekeeping: float = 1.0
    hint_spacing: float = 0.5
    report_age: float = 10.0
    silence: SilenceRules = field(default_factory=SilenceRules)
