"""What llama.cpp's command lines have and ours don't: accepted where it changes nothing here, so that people can paste their line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Arity: TypeAlias = Literal["none", "one"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """An option of llama.cpp that is accepted and ignored.

    Attributes:
        arity: whether a value follows.
        reason: why nothing is lost, for the one-line notice.
    """

    arity: Arity
    reason: str


_IGNORED: Final[tuple[tuple[str, Arity, str], ...]] = (
    ("--no-display-prompt -cnv --conversation -st --single-turn --jinja --warmup --perf --no-escape", "none", "it is always so here"),
    ("--no-context-shift --kv-offload -kvo --swa-full", "none", "it is always so here"),
    ("--no-warmup", "none", "a short pass is needed to time plain decoding"),
    ("--no-perf", "none", "the statistics go to standard error, and 2>/dev/null hides them"),
    ("--mmap --no-mmap --mlock", "none", "weights are mapped, and stay in memory while there is room"),
    ("--log-disable", "none", "diagnostics are quiet already"),
    ("--simple-io", "none", "without --color the output is simple"),
    ("-b --batch-size -ub --ubatch-size", "one", "passes are cut to fit by themselves"),
    ("-cd --ctx-size-draft", "one", "the draft model's context follows the target's"),
    ("-ctkd --cache-type-k-draft --spec-draft-type-k", "one", "the draft's cache stays f16: a quantised one ruins acceptance"),
    ("-ctvd --cache-type-v-draft --spec-draft-type-v", "one", "the draft's cache stays f16: a quantised one ruins acceptance"),
    ("-tb --threads-batch -tbd --threads-batch-draft --spec-draft-threads-batch", "one", "-t and -td also hold for the prompt"),
    ("--prio --prio-batch --poll --poll-batch", "one", "scheduling is left to the system"),
    ("-ps --draft-p-split --spec-draft-p-split", "one", "drafts are chains"),
    ("--keep", "one", "the context is never shifted"),
    ("-np --parallel -ns --sequences", "one", "`run` and `chat` decode one sequence"),
)
FOREIGN: Final = {name: Foreign(arity, reason) for names, arity, reason in _IGNORED for name in names.split()}
"""Flag to what becomes of it. None of these can change the text, except through rounding on some backend."""

_ELSEWHERE: Final = (
    (
        "-p --prompt -f --file --example -e --escape",
        "for one prompt use `outrider run`; `chat` takes messages as they are typed, or from standard input",
    ),
    ("-i --interactive -if --interactive-first", "for a conversation use `outrider chat`"),
    ("-hf -hfr --hf-repo -hfd -hfrd --hf-repo-draft", "give the file as -m hf:OWNER/REPO/FILE"),
)
ELSEWHERE: Final = {name: hint for names, hint in _ELSEWHERE for name in names.split()}
"""Flags that a command does not accept, with the way to what they mean."""

SAMPLER_SEQUENCE: Final = ("--sampling-seq", "--sampler-seq")
OUR_SEQUENCE: Final = "ekpmt"
"""Our chain in the letters of --sampling-seq: penalties, top-k, top-p, min-p, temperature."""

RAW: Final = ("-no-cnv", "--no-conversation")
"""llama.cpp's names for giving the prompt to the model without the chat template."""
