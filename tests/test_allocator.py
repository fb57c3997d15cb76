"""Freed memory stays with the process, so that the next large body costs no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from warmroute.allocator import keep_freed_memory

FAULTS = """
import resource, sys
from warmroute.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory({})
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def bodies():
    held = [bytes(400_000) for _ in range(8)]
bodies()
before = faults()
for _ in range(50):
    bodies()
print(faults() - before)
"""

glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of glibc")


def faults_of(mode: str) -> int:
    """Page faults of 50 times 8 bodies of 400 KB, in a process of its own: the setting cannot be taken back."""
    done = subprocess.run([sys.executable, "-c", FAULTS, mode], check=True, capture_output=True, text=True)
    return int(done.stdout)


@glibc_only
def test_large_bodies_that_come_and_go_cost_no_page_faults():
    assert 4 * faults_of("keep") < faults_of("leave")


@pytest.mark.parametrize(
    "environ", [{"MALLOC_TRIM_THRESHOLD_": "1000000"}, {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1000000"}]
)
def test_who_tunes_the_allocator_is_left_alone(environ: dict[str, str]):
    assert not keep_freed_memory(environ)
