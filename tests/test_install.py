"""The set-up script: what a cached build is named after, which builds count, and how progress is shown."""

from __future__ import annotations

import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import install


def test_the_pinned_version_is_one_that_the_project_accepts() -> None:
    major, minor, _ = install.pinned_version().split(".")
    assert (major, minor) == ("0", "3")


def test_a_build_is_named_after_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    monkeypatch.setattr(install, "cpu_features", lambda: "avx2 fma")
    keys = [install.wheel_key("0.3.36"), install.wheel_key("0.3.37")]
    monkeypatch.setattr(install, "cpu_features", lambda: "avx2 avx512f fma")
    keys.append(install.wheel_key("0.3.36"))
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=on")
    keys.append(install.wheel_key("0.3.36"))
    assert len(set(keys)) == 4
    assert keys[-1] == install.wheel_key("0.3.36")


def test_the_user_s_build_options_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_ARGS", "-DLLAVA_BUILD=ON")
    assert install.cmake_args().split()[-1] == "-DLLAVA_BUILD=ON"


def test_amx_is_left_out_where_the_cpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc 12 compiles llama.cpp's use of it into a crash; elsewhere the compiler may not know the flag."""
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    monkeypatch.setattr(install, "cpu_features", lambda: "amx_int8 amx_tile avx2")
    assert shlex.split(install.cmake_args()) == ["-DLLAVA_BUILD=OFF", "-DCMAKE_CXX_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"]
    monkeypatch.setattr(install, "cpu_features", lambda: "avx2")
    assert install.cmake_args() == "-DLLAVA_BUILD=OFF"


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert install.wheel_cache("key") == tmp_path / "outrider" / "wheels" / "key"


def test_a_truncated_wheel_does_not_count(tmp_path: Path) -> None:
    assert install.cached_wheel(tmp_path / "nowhere") is None
    whole = tmp_path / "b.whl"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("a.txt", "a" * 1000)
    (tmp_path / "a.whl").write_bytes(whole.read_bytes()[:50])
    assert install.cached_wheel(tmp_path) == whole


def test_progress_is_a_line_for_each_twentieth(capsys: pytest.CaptureFixture[str]) -> None:
    progress = install.Progress("building")
    for step in range(1, 141):
        install.show(progress, f"  [{step}/140] /usr/bin/g++ -O3 -c a.cpp")
    install.show(progress, "  some compiler warning")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("  building: [....................]   0 %  step 1 of 140")
    assert lines[-1].startswith("  building: [####################] 100 %  step 140 of 140")


def test_a_failed_command_ends_with_its_last_words_and_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "print('g++: fatal error: Killed signal terminated program cc1plus'); raise SystemExit(3)"]
    with pytest.raises(install.InstallError, match=r"building x failed \(out of memory\? .*\); the whole log is in .*build.log"):
        install.run(command, "building x", tmp_path / "logs" / "build.log")
    assert "cc1plus" in capfd.readouterr().err
    assert "cc1plus" in (tmp_path / "logs" / "build.log").read_text()


def test_a_stamp_that_cannot_be_read_means_that_nothing_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "STAMP", tmp_path / "stamp.json")
    todo = [words for words, _, _ in install.steps(dev=False, llama=True)]
    (tmp_path / "stamp.json").write_text('{"llama": ')
    assert [words for words, _, _ in install.steps(dev=False, llama=True)] == todo
    assert len(todo) == 2


def test_finished_steps_are_not_done_again_until_something_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "STAMP", tmp_path / "stamp.json")
    for _, _, then in install.steps(dev=False, llama=True):
        install.write_stamp(install.read_stamp() | then)
    assert list(install.steps(dev=False, llama=False)) == []  # what was once asked for is kept
    (words,) = [words for words, _, _ in install.steps(dev=True, llama=False)]
    assert words == "install outrider with its development tools"
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=on")
    assert len(list(install.steps(dev=False, llama=False))) == 1


@pytest.mark.parametrize(
    ("machine", "features", "n_steps"), [("x86_64", "", 1), ("riscv64", "", 2), ("aarch64", "asimd", 2), ("aarch64", "asimd asimddp", 1)]
)
def test_llama_cpp_is_built_only_where_the_native_engine_is_slow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, features: str, n_steps: int
) -> None:
    monkeypatch.setattr(install, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(install.platform, "machine", lambda: machine)
    monkeypatch.setattr(install, "cpu_features", lambda: features)
    assert len(list(install.steps(dev=False, llama=False))) == n_steps
