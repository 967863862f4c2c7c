"""How many CPUs this process may really use: affinity and cgroup quota, not what the machine has.

A container on a 64-core host with a quota of 2 CPUs that starts 64 threads is throttled most of the time, and threads that
spin at a barrier burn the quota for nothing. So the smaller of both limits counts.
"""

from __future__ import annotations

import os
from pathlib import Path

_ROOT = Path("/")


def usable_cpus(root: Path = _ROOT) -> int:
    """CPUs that this process may use at the same time, at least 1.

    The smaller of the CPU affinity of the calling thread and the CPU quota of its cgroup (v2 or v1), rounded down.

    Args:
        root: where `proc` and `sys` are mounted; tests pass a directory.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    quota = cgroup_quota(root)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def cgroup_quota(root: Path = _ROOT) -> float | None:
    """CPU time per wall time that the cgroups of this process grant, or None without a limit.

    Every ancestor of the process's cgroup may set a limit; the smallest one holds. Inside a container the ancestors above
    the container are invisible, but its own limit then stands at the root of the mounted hierarchy.
    """
    quotas = [quota for path in cgroup_directories("cpu", root) if (quota := _quota(path)) is not None]
    return min(quotas, default=None)


def cgroup_directories(controller: str, root: Path = _ROOT) -> list[Path]:
    """Directories of the process's cgroup and all its ancestors, in v2 and in the v1 hierarchy of that controller."""
    directories: list[Path] = []
    for line in read_text(root / "proc/self/cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            mount = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controllers
            mount = mount if mount.is_dir() else root / "sys/fs/cgroup" / controller
        else:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        directories += [mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return directories


def _quota(group: Path) -> float | None:
    """The CPU limit that one cgroup directory sets: `cpu.max` in v2, two files in v1."""
    words = read_text(group / "cpu.max").split() or [
        *read_text(group / "cpu.cfs_quota_us").split(),
        *read_text(group / "cpu.cfs_period_us").split(),
    ]
    if len(words) != 2 or not all(word.isdecimal() for word in words):  # "max" in v2 and -1 in v1 mean: no limit
        return None
    quota, period = map(int, words)
    return quota / period if period else None


def read_text(path: Path) -> str:
    """A kernel file's text, "" if it isn't there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # no cgroups, or not this version of them
        return ""
