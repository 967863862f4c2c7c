"""The CPU count follows affinity and quota, whatever the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.cpus import cgroup_quota, usable_cpus


def system(root: Path, cgroup: str, **files: str) -> Path:
    """A fake root: the process's cgroup line, and files under sys/fs/cgroup ("a/b" written as a__b)."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "quota"),
    [
        ("0::/\n", {"cpu_max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu_max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"a__cpu_max": "300000 100000\n", "a__b__cpu_max": "max 100000\n"}, 3.0),
        ("0::/a/b\n", {"a__cpu_max": "100000 100000\n", "a__b__cpu_max": "200000 100000\n"}, 1.0),
        ("0::/../other\n", {"cpu_max": "200000 100000\n"}, 2.0),
        (
            "4:memory:/x\n3:cpu,cpuacct:/y\n",
            {"cpu,cpuacct__y__cpu_cfs_quota_us": "50000\n", "cpu,cpuacct__y__cpu_cfs_period_us": "100000\n"},
            0.5,
        ),
        ("3:cpu:/\n", {"cpu__cpu_cfs_quota_us": "-1\n", "cpu__cpu_cfs_period_us": "100000\n"}, None),
        ("3:cpuset:/\n", {"cpu_max": "100000 100000\n"}, None),
        ("0::/\n", {"cpu_max": "100000 0\n"}, None),
        ("nonsense\n", {"cpu_max": "what is this\n"}, None),
    ],
)
def test_quota(tmp_path: Path, cgroup: str, files: dict[str, str], quota: float | None) -> None:
    assert cgroup_quota(system(tmp_path, cgroup, **files)) == quota


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path) is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_the_smaller_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = system(tmp_path, "0::/\n", cpu_max="300000 100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert usable_cpus(root) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5})
    assert usable_cpus(root) == 2


def test_a_fraction_of_a_cpu_is_one_thread(tmp_path: Path) -> None:
    assert usable_cpus(system(tmp_path, "0::/\n", cpu_max="20000 100000\n")) == 1


def test_without_affinity_the_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cpus(tmp_path) == 6
