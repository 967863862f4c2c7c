"""Command lines in canonical words, llama.cpp's included."""

from __future__ import annotations

import pytest

from outrider.cli.arguments import Flag, canonical, check_sampler_sequence
from outrider.cli.llamacpp import ELSEWHERE, FOREIGN, OUR_SEQUENCE, RAW, SAMPLER_SEQUENCE
from outrider.cli.settings import all_options
from outrider.errors import ConfigError

FLAGS = (
    Flag(("-m", "--model"), "one"),
    Flag(("-md", "--model-draft"), "one"),
    Flag(("-n", "--n-predict"), "one"),
    Flag(("-ngl", "--gpu-layers"), "one"),
    Flag(("-p", "--prompt"), "one"),
    Flag(("--draft-max", "--draft"), "one"),
    Flag(("-fa", "--flash-attn"), "optional", ("on", "off", "auto"), "on"),
    Flag(("--color", "-co"), "optional", ("on", "off"), "on"),
    Flag(("--plain",), "none"),
    Flag(("--raw",), "none"),
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["-m", "a", "-md", "b"], ["-m=a", "-md=b"]),
        (["--model=a", "--model-draft=x=y"], ["-m=a", "-md=x=y"]),
        (["--draft", "8", "--draft-max=9"], ["--draft-max=8", "--draft-max=9"]),
        (["--draft_max", "8"], ["--draft-max=8"]),
        (["-ngl", "-1"], ["-ngl=-1"]),
        (["-p", "-p"], ["-p=-p"]),
        (["-p", ""], ["-p="]),
        (["-p="], ["-p="]),
        (["-fa"], ["-fa=on"]),
        (["-fa", "off", "--plain"], ["-fa=off", "--plain"]),
        (["-fa", "--color"], ["-fa=on", "--color=on"]),
        (["-fa", "-co", "off"], ["-fa=on", "--color=off"]),
        (["-fa", "-"], ["-fa=on", "-"]),
        (["-fa=auto"], ["-fa=auto"]),
        (["-", "--plain"], ["--plain", "-"]),
        (["--", "-m", "x"], ["-m", "x"]),
        (["-fa", "--", "-m"], ["-fa=on", "-m"]),
        (["-no-cnv"], ["--raw"]),
        ([], []),
    ],
)
def test_words_become_canonical(line: list[str], expected: list[str]) -> None:
    found = canonical(line, FLAGS)
    assert (found.words, found.notices, found.sampler_sequence) == (expected, [], None)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (["--drft-max", "1"], "there is no option --drft-max", "did you mean --draft-max?"),
        (["-ngk", "3"], "there is no option -ngk", "did you mean -ngl?"),
        (["-n32"], "there is no option -n32", "did you mean -n 32?"),
        (["-ngl99"], "there is no option -ngl99", "did you mean -ngl 99?"),
        (["--xyzzy"], "there is no option --xyzzy", "--help lists all options"),
        (["-m"], "-m needs a value", "write it after -m"),
        (["--plain=1"], "--plain takes no value, and got '1'", "give --plain alone, or leave it out"),
        (["-i"], "there is no option -i", "for a conversation use `outrider chat`"),
        (["-hf", "a/b"], "there is no option -hf", "give the file as -m hf:OWNER/REPO/FILE"),
        (["-b"], "-b needs a value", "write it after -b"),
        (["--sampling-seq"], "--sampling-seq needs a value", "write it after --sampling-seq"),
    ],
)
def test_what_is_not_known_is_an_error(line: list[str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        canonical(line, FLAGS)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("name", FOREIGN)
def test_llama_cpps_harmless_flags_are_ignored_with_one_notice(name: str) -> None:
    value = ["4"] if FOREIGN[name].arity == "one" else []
    found = canonical([name, *value, "-m", "a"], FLAGS)
    assert found.words == ["-m=a"]
    assert found.notices == [f"{' '.join([name, *value])} is ignored: {FOREIGN[name].reason}"]


def test_no_name_means_two_things() -> None:
    ours = [name for _, _, spec, _ in all_options() for name in spec.flags]
    theirs = [*FOREIGN, *ELSEWHERE, *RAW, *SAMPLER_SEQUENCE]
    assert len(set(ours + theirs)) == len(ours + theirs)


def test_a_sampler_sequence_is_ignored_only_where_it_changes_nothing() -> None:
    assert canonical(["--sampling-seq", "k"], FLAGS).sampler_sequence == "k"
    assert check_sampler_sequence(None, is_greedy=False) == []
    assert len(check_sampler_sequence("k", is_greedy=True)) == 1
    assert len(check_sampler_sequence(OUR_SEQUENCE, is_greedy=False)) == 1
    assert len(check_sampler_sequence("edskypmxt", is_greedy=False)) == 1
    for other in ("k", "tkpm", ""):
        with pytest.raises(ConfigError, match="another sampler chain"):
            check_sampler_sequence(other, is_greedy=False)
