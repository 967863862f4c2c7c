"""Every option, declared once: default, help, unit, range and llama.cpp's names for it.

Command-line flags, the reference page and (later) the server's schema are generated from these fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_args, get_type_hints

from outrider.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Spec:
    """What a field's type cannot say about an option.

    Attributes:
        flags: command-line names, the preferred one first; llama.cpp's spellings are accepted as synonyms.
        help: one sentence for `--help` and the reference page.
        unit: of the value, "" if it has none.
        minimum, maximum: inclusive range of a number.
        choices: allowed words.
        metavar: what `--help` calls the value.
        optional_value: the flag may stand alone and then means this.
        repeatable: the flag may be given several times.
    """

    flags: tuple[str, ...]
    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    optional_value: str | None = None
    repeatable: bool = False


def _option(default: Any, *flags: str, help: str, **more: Any) -> Any:  # noqa: A002  # the word that argparse uses
    return field(default=default, metadata={"spec": Spec(flags=flags, help=help, **more)})


@dataclass(frozen=True, slots=True)
class Options:
    """Base of the option groups: checks ranges and choices when it is made."""

    def __post_init__(self) -> None:
        types = option_types(type(self))
        for name, spec in option_specs(type(self)):
            _check_type(spec, types[name], getattr(self, name))
            _check(name, spec, getattr(self, name))


def option_specs(group: type[Options]) -> Iterator[tuple[str, Spec]]:
    """Field name and declaration of each option of a group, in order."""
    for item in fields(group):
        yield item.name, item.metadata["spec"]


def option_types(group: type[Options]) -> dict[str, Any]:
    """Field name to evaluated type of each option of a group."""
    return get_type_hints(group)


def option_default(group: type[Options], name: str) -> Any:
    """Default of one option."""
    default = next(item.default for item in fields(group) if item.name == name)
    return None if default is MISSING else default


def _check(name: str, spec: Spec, value: Any) -> None:
    if value is None:
        return
    flag = spec.flags[0] if spec.flags else name
    if spec.choices:
        for word in value if isinstance(value, tuple) else (value,):
            if word not in spec.choices:
                raise ConfigError(f"{flag} is {word!r}", f"choose one of: {', '.join(spec.choices)}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124  # NaN is the one value unequal to itself
        raise ConfigError(f"{flag} is {value}", "give a finite number")
    low, high = spec.minimum, spec.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"at most {high}" if low is None else f"from {low} to {high}"
        unit = f" {spec.unit}" if spec.unit else ""
        raise ConfigError(f"{flag} is {_shown(value)}", f"it must be {bounds}{unit}")


def _shown(value: float) -> str:
    """A number as it was given, unless that would fill the screen (and Python itself refuses to write more than 4300 digits)."""
    return f"a number of {abs(value).bit_length()} bits" if isinstance(value, int) and abs(value) >= 1 << 128 else str(value)


def _check_type(spec: Spec, kind: Any, value: Any) -> None:
    """Mistakes of Python callers; a command line has its own conversion."""
    if kind == tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, tuple | list) or not all(isinstance(word, str) for word in value):
            raise ConfigError(f"{spec.flags[0]} is {value!r}", 'it must be a tuple of texts, such as ("END",)')
        return
    accepted = {float: (float, int), int: (int,), bool: (bool,), str: (str,)}
    wanted = [kind] if isinstance(kind, type) else list(get_args(kind))
    is_right = any(value is None if one is type(None) else isinstance(value, accepted[one]) for one in wanted)
    if not is_right or (isinstance(value, bool) and bool not in wanted):
        words = {float: "a number", int: "a whole number", bool: "True or False", str: "a text", type(None): "None"}
        raise ConfigError(f"{spec.flags[0]} is {value!r}", f"it must be {' or '.join(words[one] for one in wanted)}")


CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")


@dataclass(frozen=True, slots=True)
class ModelOptions(Options):
    """Which models, and where and how they run."""

    model: str | None = _option(None, "-m", "--model", help="Target model: a GGUF file or a catalogue name.", metavar="TARGET")
    draft_model: str | None = _option(
        None,
        "-md",
        "--model-draft",
        "--draft-model",
        "--spec-draft-model",
        help="Draft model: a GGUF file or a catalogue name. Without it nothing is drafted.",
        metavar="DRAFT",
    )
    context: int = _option(
        0,
        "-c",
        "--ctx-size",
        help="Context length; 0 takes the model's own limit, at most 8192.",
        unit="tokens",
        minimum=0,
        maximum=1 << 24,
        metavar="N",
    )
    threads: int = _option(
        0, "-t", "--threads", help="Threads of the target; 0 means every CPU this process may use.", minimum=0, maximum=1024, metavar="N"
    )
    draft_threads: int = _option(
        0,
        "-td",
        "--threads-draft",
        "--spec-draft-threads",
        help="Threads of the draft model; 0 means as many as the target.",
        minimum=0,
        maximum=1024,
        metavar="N",
    )
    backend: str = _option(
        "auto",
        "--backend",
        help="What runs the models; auto is native on a CPU wherever it can, llama.cpp otherwise.",
        choices=("auto", "native", "llama"),
        metavar="NAME",
    )
    device: str | None = _option(
        None, "--device", "-dev", help="Run on this device; an error if it is not there. `none` means the CPU.", metavar="D"
    )
    gpu_layers: int = _option(
        0,
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        help="Layers of the target kept on the GPU; -1 means all.",
        minimum=-1,
        maximum=100000,
        metavar="N",
    )
    draft_gpu_layers: int = _option(
        0,
        "-ngld",
        "--gpu-layers-draft",
        "--n-gpu-layers-draft",
        "--spec-draft-ngl",
        help="Layers of the draft model kept on the GPU; -1 means all.",
        minimum=-1,
        maximum=100000,
        metavar="N",
    )
    flash_attention: str = _option(
        "auto",
        "-fa",
        "--flash-attn",
        help="Flash attention; the flag alone means on.",
        choices=("on", "off", "auto"),
        optional_value="on",
        metavar="on|off|auto",
    )
    cache_type_k: str = _option(
        "f16",
        "-ctk",
        "--cache-type-k",
        help="Type of the target's cached keys; the native engine has f16 and q8_0.",
        choices=CACHE_TYPES,
        metavar="T",
    )
    cache_type_v: str = _option(
        "f16",
        "-ctv",
        "--cache-type-v",
        help="Type of the target's cached values; the native engine has f16 and q8_0. A quantised type contradicts -fa off.",
        choices=CACHE_TYPES,
        metavar="T",
    )
    no_kv_offload: bool = _option(False, "-nkvo", "--no-kv-offload", help="Keep the KV cache in ordinary memory even with layers on a GPU.")

    def __post_init__(self) -> None:
        super(ModelOptions, self).__post_init__()  # zero-argument super() breaks with slots on 3.11
        if self.context == 1:
            raise ConfigError("-c 1 has no room for an answer", "a prompt of one token and one more need -c 2")
        quantised = self.cache_type_v not in ("f32", "f16", "bf16")
        if quantised and self.flash_attention == "off":
            raise ConfigError(f"-ctv {self.cache_type_v} contradicts -fa off", "quantised values need flash attention: drop -fa off")


@dataclass(frozen=True, slots=True)
class SamplingOptions(Options):
    """The target's sampler chain. The defaults are greedy decoding."""

    temperature: float = _option(
        0.0, "--temp", "--temperature", help="0 is greedy; above it, tokens are drawn.", minimum=0.0, maximum=100.0, metavar="T"
    )
    top_k: int = _option(40, "--top-k", help="Keep the K most probable tokens; 0 turns it off.", minimum=0, maximum=1 << 24, metavar="K")
    top_p: float = _option(
        0.95,
        "--top-p",
        help="Keep the smallest set of tokens with this total probability; 1 turns it off.",
        minimum=0.0,
        maximum=1.0,
        metavar="P",
    )
    min_p: float = _option(
        0.05,
        "--min-p",
        help="Drop tokens below this share of the best token's probability; 0 turns it off.",
        minimum=0.0,
        maximum=1.0,
        metavar="P",
    )
    repeat_penalty: float = _option(
        1.0,
        "--repeat-penalty",
        help="Divide (or multiply, if negative) the logits of recent tokens by this; 1 turns it off.",
        minimum=0.01,
        maximum=100.0,
        metavar="X",
    )
    presence_penalty: float = _option(
        0.0, "--presence-penalty", help="Subtract this from the logits of recent tokens.", minimum=-100.0, maximum=100.0, metavar="X"
    )
    frequency_penalty: float = _option(
        0.0, "--frequency-penalty", help="Subtract this for every recent occurrence of a token.", minimum=-100.0, maximum=100.0, metavar="X"
    )
    penalty_last_n: int = _option(
        64, "--repeat-last-n", help="How many recent tokens the penalties look at.", unit="tokens", minimum=0, maximum=1 << 24, metavar="N"
    )
    seed: int | None = _option(
        None,
        "-s",
        "--seed",
        help="Seed of every random choice, with which text equals plain decoding; -1 or none means a fresh one, which is reported.",
        minimum=-1,
        maximum=2**64 - 1,
        metavar="SEED",
    )


@dataclass(frozen=True, slots=True)
class SpeculationOptions(Options):
    """How to draft and verify."""

    plain: bool = _option(False, "--plain", help="Ordinary decoding; overrides -md.")
    policy: str = _option("fixed", "--policy", help="How draft lengths are decided.", choices=("fixed",), metavar="NAME")
    drafter: str = _option("auto", "--drafter", help="Who proposes tokens.", choices=("auto", "model", "none"), metavar="NAME")
    draft_max: int = _option(
        16,
        "--draft-max",
        "--draft",
        "--draft-n",
        "--spec-draft-n-max",
        help="Draft at most this many tokens; 0 means don't speculate.",
        unit="tokens",
        minimum=0,
        maximum=1024,
        metavar="N",
    )
    draft_min: int = _option(
        0,
        "--draft-min",
        "--draft-n-min",
        "--spec-draft-n-min",
        help="Don't verify drafts shorter than this; 0 turns the rule off.",
        unit="tokens",
        minimum=0,
        maximum=1024,
        metavar="N",
    )
    draft_p_min: float = _option(
        0.75,
        "--draft-p-min",
        "--spec-draft-p-min",
        help="Stop drafting when the draft model's best token is less probable than this; 0 turns the rule off.",
        minimum=0.0,
        maximum=1.0,
        metavar="P",
    )
    verify: str | None = _option(
        None,
        "--verify",
        help="Verification above temperature 0: match (default with a seed; text equals plain decoding) or rejection.",
        choices=("match", "rejection"),
        metavar="RULE",
    )

    def __post_init__(self) -> None:
        super(SpeculationOptions, self).__post_init__()  # zero-argument super() breaks with slots on 3.11
        if self.draft_max and self.draft_min > self.draft_max:
            raise ConfigError(
                f"--draft-min {self.draft_min} is more than --draft-max {self.draft_max}",
                "no draft could ever be verified: lower one or raise the other",
            )


@dataclass(frozen=True, slots=True)
class GenerationOptions(Options):
    """What to generate and when to stop."""

    max_tokens: int = _option(
        -1,
        "-n",
        "--n-predict",
        "--predict",
        help="Stop after this many tokens; -1 means: when the model stops or the context is full.",
        unit="tokens",
        minimum=-1,
        maximum=1 << 24,
        metavar="N",
    )
    stop: tuple[str, ...] = _option(
        (), "--stop", "-r", "--reverse-prompt", help="Stop before this text; may be given several times.", repeatable=True, metavar="S"
    )
    raw: bool = _option(False, "--raw", help="Give the prompt to the model as it is, without the chat template.")
    ignore_eos: bool = _option(False, "--ignore-eos", help="Go on past the model's own end token.")

    def __post_init__(self) -> None:
        super(GenerationOptions, self).__post_init__()  # zero-argument super() breaks with slots on 3.11
        if "" in self.stop:
            raise ConfigError("a stop string is empty", "it would stop before the first character: leave it out")


@dataclass(frozen=True, slots=True)
class Settings:
    """All options of a run, and where each value came from ("default", "command line", "environment", ...)."""

    model: ModelOptions = field(default_factory=ModelOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    speculation: SpeculationOptions = field(default_factory=SpeculationOptions)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    origins: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(**options: Any) -> Settings:
        """Settings from flat option names, such as `Settings.of(model="a.gguf", temperature=0.8)`.

        Raises:
            ConfigError: an unknown name, or a value out of range.
        """
        origins = dict.fromkeys(options, "argument")
        groups: dict[str, Options] = {}
        for name, group in _GROUP_TYPES.items():
            own = {option for option, _ in option_specs(group)}
            groups[name] = group(**{option: options.pop(option) for option in own & options.keys()})
        if options:
            known = sorted(name for group in OPTION_GROUPS for name, _ in option_specs(group))
            raise ConfigError(f"there is no option {next(iter(options))!r}", f"the options are: {', '.join(known)}")
        return Settings(**groups, origins=origins)  # type: ignore[arg-type]


OPTION_GROUPS: tuple[type[Options], ...] = (ModelOptions, SamplingOptions, SpeculationOptions, GenerationOptions)
_GROUP_TYPES: dict[str, type[Options]] = {
    "model": ModelOptions,
    "sampling": SamplingOptions,
    "speculation": SpeculationOptions,
    "generation": GenerationOptions,
}
