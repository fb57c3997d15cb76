"""What all tests share."""

from hypothesis import settings

# A busy machine is no failure: time limits belong to pytest-timeout.
settings.register_profile("warmroute", deadline=None)
settings.load_profile("warmroute")
