"""Serving an exchange by a prefill and a decode worker. Knows no engine by name: what to send, a dialect says."""
