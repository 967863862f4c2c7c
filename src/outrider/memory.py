"""How much memory this process may still use: what the machine has free, and what its cgroup grants."""

from __future__ import annotations

import re
from pathlib import Path

from outrider.cpus import cgroup_directories, read_text

_ROOT = Path("/")
_MEM_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_INACTIVE_FILE = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)


def available_memory(root: Path = _ROOT) -> int | None:
    """Bytes that can be allocated before something is killed, or None where the system doesn't say.

    The smaller of the kernel's estimate (MemAvailable, which counts reclaimable page cache as free) and what every cgroup limit
    leaves, reclaimable page cache not counted there either: mapped weights must not look like used memory.

    Args:
        root: where `proc` and `sys` are mounted; tests pass a directory.
    """
    bounds = [bound for group in cgroup_directories("memory", root) if (bound := _left(group)) is not None]
    if found := _MEM_AVAILABLE.search(read_text(root / "proc/meminfo")):
        bounds.append(int(found[1]) * 1024)
    return min(bounds, default=None)


def _left(group: Path) -> int | None:
    """What one cgroup directory leaves: v2's files, or v1's."""
    for limit_name, usage_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, usage = read_text(group / limit_name).strip(), read_text(group / usage_name).strip()
        if limit.isdecimal() and usage.isdecimal():  # "max" means: no limit
            found = _INACTIVE_FILE.search(read_text(group / "memory.stat"))
            return max(0, int(limit) - int(usage) + (int(found[1]) if found else 0))
    return None
