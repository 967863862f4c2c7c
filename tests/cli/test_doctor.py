"""`outrider doctor` on a fake machine and a fake pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.cli import examination
from outrider.cli.examination import machine
from outrider.errors import ConfigError, IncompatibleModelsError
from outrider.llama import Device
from outrider.llama.devices import DeviceKind
from outrider.llama.library import DeviceHandle

GPU = Device("CUDA0", "NVIDIA H200", "CUDA", DeviceKind.GPU, 10**9, 140 * 10**9, DeviceHandle(1))


@pytest.fixture(autouse=True)
def _no_llama_cpp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(examination, "find_spec", lambda name: object())
    monkeypatch.setattr(examination, "devices", lambda: [GPU])
    monkeypatch.setattr(examination, "_kernels", lambda: ["AVX2", "FMA"])
    monkeypatch.setattr(examination.native, "is_available", lambda: True)
    monkeypatch.setattr(examination.native, "instruction_sets", lambda: ["avx2", "scalar"])
    monkeypatch.delenv("OUTRIDER_ISA", raising=False)
    monkeypatch.setenv("OUTRIDER_MODELS_DIR", str(tmp_path / "models"))


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[str, str]:
    """Two files that stand for pulled models; the fake pair never reads them."""
    for name in ("t.gguf", "d.gguf"):
        (tmp_path / name).write_bytes(b"")
    return str(tmp_path / "t.gguf"), str(tmp_path / "d.gguf")


def fake_root(folder: Path, cpuinfo: str, meminfo: str = "") -> Path:
    (folder / "proc").mkdir()
    (folder / "proc/cpuinfo").write_text(cpuinfo)
    (folder / "proc/meminfo").write_text(meminfo)
    return folder


def test_it_says_what_is_here(outrider: Any) -> None:
    done = outrider("doctor")
    assert (done.code, done.err) == (0, "")
    for words in (
        "outrider ",
        "packages ",
        "processor ",
        "memory ",
        "device CUDA0: NVIDIA H200 (gpu, 140.0 GB)",
        "kernels for AVX2 FMA",
        "numpy ",
    ):
        assert words in done.out
    assert "qwen2.5-coder-1.5b: absent, 1.1 GB" in done.out
    assert "pair            none examined" in done.out


def test_a_pair_is_examined_as_run_would_load_it(outrider: Any, pulled: tuple[str, str]) -> None:
    target, draft = pulled
    active = outrider("doctor", "-m", target, "-md", draft)
    assert (active.code, active.err) == (0, "")
    assert "speculation     active\n" in active.out
    assert "note            this pair is a fake" in active.out
    assert ", f16 cache, " in active.out
    alone = outrider("doctor", "-m", target)
    assert "speculation     inactive: there is no draft model (-md)" in alone.out


def test_json(outrider: Any, pulled: tuple[str, str]) -> None:
    done = outrider("doctor", "-m", pulled[0], "-md", pulled[1], "--json")
    found = json.loads(done.out)
    assert found["pair"]["speculation"] == {"active": True, "reason": ""}
    assert found["cpu"]["usable"] >= 1
    assert [backend["name"] for backend in found["backends"]] == ["native", "llama"]
    assert found["backends"][1]["devices"][0]["name"] == "CUDA0"
    assert found["models"]["known"][0]["state"] == "absent"


@pytest.mark.parametrize("as_json", [False, True])
def test_what_stands_in_the_way_is_the_exit_code(
    outrider: Any, monkeypatch: pytest.MonkeyPatch, pulled: tuple[str, str], *, as_json: bool
) -> None:
    def refuse(settings: Any) -> Any:
        raise IncompatibleModelsError("they speak different vocabularies", "take a draft of the same family")

    monkeypatch.setattr(examination.loading, "load", refuse)
    done = outrider("doctor", "-m", pulled[0], "-md", pulled[1], *(["--json"] if as_json else []))
    assert done.code == 7
    assert done.err == "outrider: error: they speak different vocabularies\nhint: take a draft of the same family\n"
    if as_json:
        assert json.loads(done.out)["pair"]["error"]["type"] == "IncompatibleModelsError"
    else:
        assert "pair            does not work, see below" in done.out


@pytest.mark.parametrize(("name", "code"), [("qwen2.5-coder-0.5b", 5), ("qwen2.5-coder-5b", 3), ("nowhere/x.gguf", 5)])
def test_nothing_is_fetched(outrider: Any, name: str, code: int) -> None:
    assert outrider("doctor", "-m", name).code == code


def test_a_backend_that_is_not_installed_is_no_error(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "find_spec", lambda name: None)
    monkeypatch.setattr(examination.native, "is_available", lambda: False)
    done = outrider("doctor")
    assert done.code == 0
    assert "llama backend   not installed: only GPUs, and models that the native engine cannot run, need it; in a clone: " in done.out
    assert "native backend  not installed: this installation was built without it" in done.out
    assert "NOT USABLE" not in done.out


def test_a_backend_that_cannot_be_used_says_why(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[Device]:
        raise ConfigError("libllama cannot be loaded", "install it again")

    monkeypatch.setattr(examination, "devices", refuse)
    monkeypatch.setenv("OUTRIDER_ISA", "mmx")
    done = outrider("doctor")
    assert done.code == 0
    assert "llama backend   NOT USABLE: libllama cannot be loaded (install it again)\n" in done.out
    reason = "OUTRIDER_ISA is 'mmx', which cannot run here (unset it, or choose from avx2, scalar)"
    assert f"native backend  NOT USABLE: {reason}\n" in done.out


@pytest.mark.parametrize(
    ("override", "kernels"),
    [("", "avx2 kernels (the best of avx2 scalar)"), ("scalar", "scalar kernels (OUTRIDER_ISA=scalar of avx2 scalar)")],
)
def test_the_native_backend_says_what_it_would_run(outrider: Any, monkeypatch: pytest.MonkeyPatch, override: str, kernels: str) -> None:
    monkeypatch.setenv("OUTRIDER_ISA", override)
    assert f"native backend  {kernels}, " in outrider("doctor").out
    native = json.loads(outrider("doctor", "--json").out)["backends"][0]
    assert (native["chosen"], native["override"]) == (override or "avx2", override or None)
    assert native["threads"] >= 1


@pytest.mark.parametrize(("text", "setting"), [("always [madvise] never\n", "madvise"), ("[always] madvise never\n", "always"), ("", None)])
def test_huge_pages_are_read(tmp_path: Path, text: str, setting: str | None) -> None:
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)
    (folder / "enabled").write_text(text)
    assert machine(tmp_path)["backends"][0]["huge_pages"] == setting


def test_packages_are_those_that_the_metadata_require(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(examination.metadata, "requires", lambda name: ["numpy>=1.26", "not-there<2,>=1", 'x; extra == "dev"'])
    packages = machine(tmp_path)["packages"]
    assert list(packages) == ["numpy", "not-there"]
    assert packages["numpy"]
    assert packages["not-there"] is None


def test_a_tree_that_was_not_installed_requires_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(name: str) -> list[str]:
        raise examination.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(examination.metadata, "requires", nothing)
    assert machine(tmp_path)["packages"] == {}


@pytest.mark.parametrize(
    ("cpuinfo", "model", "instructions"),
    [
        ("model name\t: AMD EPYC\nflags\t\t: fpu avx avx2 fma\nmodel name\t: AMD EPYC\n", "AMD EPYC", ["avx", "fma", "avx2"]),
        ("Features\t: fp asimd asimddp i8mm\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5", ["asimd", "asimddp", "i8mm"]),
    ],
)
def test_processors_are_read(tmp_path: Path, cpuinfo: str, model: str, instructions: list[str]) -> None:
    found = machine(fake_root(tmp_path, cpuinfo, "MemTotal:   1000 kB\nMemAvailable:   400 kB\n"))
    assert (found["cpu"]["model"], found["cpu"]["instructions"]) == (model, instructions)
    assert found["memory"] == {"total_bytes": 1_024_000, "available_bytes": 409_600}


def test_a_machine_without_proc(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert found["memory"]["total_bytes"] is None
    assert found["cpu"]["instructions"] == []
