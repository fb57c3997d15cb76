"""The evaluation grid: every policy on five public traces, from idle to overloaded, in virtual time."""
