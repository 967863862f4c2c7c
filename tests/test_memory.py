"""Free memory is what machine and cgroup both leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.memory import available_memory

MIB = 2**20


def system(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    for name, content in {"proc/self/cgroup": cgroup, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:  9999 kB\nMemAvailable:    4096 kB\n"}
V2 = "sys/fs/cgroup/box/"
V1 = "sys/fs/cgroup/memory/box/"


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/box\n", MEMINFO, 4 * MIB),
        ("0::/box\n", MEMINFO | {V2 + "memory.max": "max\n", V2 + "memory.current": "1\n"}, 4 * MIB),
        ("0::/box\n", MEMINFO | {V2 + "memory.max": f"{3 * MIB}\n", V2 + "memory.current": f"{2 * MIB}\n"}, MIB),
        (
            "0::/box\n",
            MEMINFO
            | {
                V2 + "memory.max": f"{3 * MIB}\n",
                V2 + "memory.current": f"{2 * MIB}\n",
                V2 + "memory.stat": f"anon 5\ninactive_file {MIB}\nactive_file 7\n",
            },
            2 * MIB,
        ),
        ("0::/box\n", MEMINFO | {V2 + "memory.max": "1000\n", V2 + "memory.current": "2000\n"}, 0),
        (
            "5:memory:/box\n",
            MEMINFO
            | {
                V1 + "memory.limit_in_bytes": f"{3 * MIB}\n",
                V1 + "memory.usage_in_bytes": f"{2 * MIB}\n",
                V1 + "memory.stat": f"total_inactive_file {MIB // 2}\n",
            },
            MIB + MIB // 2,
        ),
        ("0::/\n", {"sys/fs/cgroup/memory.max": "500\n", "sys/fs/cgroup/memory.current": "100\n"}, 400),
        ("0::/box\n", {}, None),
    ],
)
def test_the_smallest_bound_counts(tmp_path: Path, cgroup: str, files: dict[str, str], expected: int | None) -> None:
    assert available_memory(system(tmp_path, cgroup, files)) == expected


def test_this_machine() -> None:
    assert (available_memory() or 1) > 0
