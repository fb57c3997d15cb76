"""One typed tree of options; YAML, environment and flags fill it, in that order of precedence."""

from warmroute.config.tree import Config, LogConfig, ManagerConfig, SchedulerConfig, ServerConfig, TopologyConfig

__all__ = ["Config", "LogConfig", "ManagerConfig", "SchedulerConfig", "ServerConfig", "TopologyConfig"]
