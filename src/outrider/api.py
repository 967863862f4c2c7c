"""The public Python interface, and the one place that wires models, drafters and policy together.

import outrider
with outrider.load(outrider.Settings.of(model="qwen2.5-coder-1.5b", draft_model="qwen2.5-coder-0.5b")) as pair:
    print(pair.generate("Write a function that reverses a list.").text)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field, replace
from threading import Event
from types import TracebackType
from typing import Any, Final

from outrider.chat import ChatSession, Message
from outrider.config import GenerationOptions, SamplingOptions, Settings, SpeculationOptions
from outrider.drafting.drafter import Drafter
from outrider.drafting.model import ModelDrafter
from outrider.drafting.none import NoDrafter
from outrider.engine import Engine
from outrider.errors import ConfigError, EmptyPromptError, RequestError
from outrider.model import LanguageModel, Segment
from outrider.policy.fixed import FixedPolicy
from outrider.result import GenerationResult
from outrider.session import Plan, Session, TokenEvent
from outrider.text.template import ChatTemplate
from outrider.text.tokenizer import Tokenizer
from outrider.types import Tokens

_N_TIMED_PASSES: Final = 5


@dataclass(slots=True)
class Loaded:
    """What a backend delivered for one pair.

    Attributes:
        target: the target model.
        tokenizer: the target's; the draft model shares its ids.
        template: the target's chat template, or None if its file has none.
        draft: the draft model, or None.
        n_shared_vocab: ids that mean the same to both models.
        notices: one line each, about what was decided or ignored.
    """

    target: LanguageModel
    tokenizer: Tokenizer
    template: ChatTemplate | None
    draft: LanguageModel | None = None
    n_shared_vocab: int = 0
    notices: list[str] = field(default_factory=list)


class Pair:
    """A loaded target model, with or without a draft model. Made by `load`; close it, or use it in a `with` block.

    One generation at a time; not thread-safe.

    Args:
        loaded: the models.
        settings: every option, with where it came from.
        clock: seconds.

    Raises:
        ConfigError: options that contradict each other or the models.
    """

    def __init__(self, loaded: Loaded, settings: Settings, clock: Callable[[], float] = time.perf_counter) -> None:
        self._loaded = loaded
        self._clock = clock
        self.settings = settings
        self.notices = list(loaded.notices)
        self.reason = _why_inactive(settings, loaded)
        self._engine = Engine(loaded.target, [self._drafter()], _policy(settings.speculation), clock)
        self._open_models = [model for model in (loaded.draft, loaded.target) if model is not None]
        self.plain_step_ms = self._warm_up()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Free both models; closing twice is harmless.

        Raises:
            EngineError: a pass is running in another thread; close again when it has ended.
        """
        while self._open_models:
            self._open_models[-1].close()
            self._open_models.pop()

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's."""
        return self._loaded.tokenizer

    @property
    def engine(self) -> Engine:
        """The engine that `generate` steps; for those who want to step it themselves."""
        return self._engine

    def generate(
        self,
        prompt: str | Seq[Message | Mapping[str, str]],
        generation: GenerationOptions | None = None,
        sampling: SamplingOptions | None = None,
        on_token: Callable[[TokenEvent], None] | None = None,
        cancel: Event | None = None,
    ) -> GenerationResult:
        """Answer one prompt.

        Args:
            prompt: a user message, or chat messages (also as mappings with "role" and "content"); with `raw` in the options,
                text to continue as it is.
            generation, sampling: options of this call; the pair's own by default.
            on_token: called with each token as it is emitted.
            cancel: set it from another thread or a signal handler to stop; the result then has what was generated so far.

        Raises:
            RequestError: empty prompt, prompt longer than the context, or no chat template.
            EngineError: a model failed.
        """
        plan = self.plan(generation, sampling)
        tokens = self.encode(prompt, raw=plan.generation.raw)
        session = Session(self._engine, self._loaded.tokenizer, self._clock)
        try:
            return session.generate(tokens, plan, on_token, cancel)
        finally:
            session.close()

    def chat(self, system: str | None = None) -> ChatSession:
        """A conversation whose turns reuse both models' caches. Close it before the next `generate` or `chat`.

        Raises:
            RequestError: the model file has no chat template.
        """
        return ChatSession(Session(self._engine, self._loaded.tokenizer, self._clock), self._template(), self.plan, system)

    def plan(self, generation: GenerationOptions | None = None, sampling: SamplingOptions | None = None) -> Plan:
        """Resolve the options of one call: the seed, the verification rule, and the record of where each value came from."""
        settings = replace(self.settings, generation=generation or self.settings.generation, sampling=sampling or self.settings.sampling)
        has_seed = settings.sampling.seed is not None and settings.sampling.seed >= 0
        rule = _rule(settings.sampling, settings.speculation, has_seed=has_seed)
        drawn = settings.sampling if has_seed else replace(settings.sampling, seed=secrets.randbits(32))
        config = _provenance(replace(settings, sampling=drawn))
        if not has_seed:
            config["seed"]["origin"] = "drawn"
        config["verify"] = {"value": rule, "origin": config["verify"]["origin"] if settings.speculation.verify == rule else "derived"}
        config["context"] = {**config["context"], "value": self._loaded.target.capabilities.n_context}
        backend = self._loaded.target.capabilities.backend
        if config["backend"]["value"] != backend:
            config["backend"] = {"value": backend, "origin": "derived"}
        return Plan(settings.generation, drawn, rule, self.reason, config, self.plain_step_ms)

    def describe(self) -> dict[str, Any]:
        """What is loaded, where it runs, and whether speculation is active; for `doctor` and reports."""
        draft = self._loaded.draft
        return {
            "target": asdict(self._loaded.target.capabilities),
            "draft": asdict(draft.capabilities) if draft is not None else None,
            "speculation": {"active": not self.reason, "reason": self.reason},
            "plain_step_ms": self.plain_step_ms,
            "notices": list(self.notices),
        }

    def encode(self, prompt: str | Seq[Message | Mapping[str, str]], *, raw: bool = False) -> Tokens:
        """The prompt's tokens, through the chat template unless `raw`.

        What looks like a special token in a message stays text; in a raw prompt it is the token.

        Raises:
            RequestError: an empty prompt, raw messages, or no chat template.
        """
        tokenizer = self._loaded.tokenizer
        if isinstance(prompt, str) and not prompt.strip():
            raise EmptyPromptError("the prompt is empty", "give some text with -p, -f or on standard input")
        if raw:
            if not isinstance(prompt, str):
                raise RequestError("chat messages cannot be given raw", "give a text, or drop --raw")
            return tokenizer.encode(prompt, parse_special=True, add_bos=True)
        messages = [Message("user", prompt)] if isinstance(prompt, str) else _messages(prompt)
        if not messages:
            raise EmptyPromptError("there are no messages", "give at least one")
        template = self._template()
        return template.encode(tokenizer, template.render_guarded(tokenizer, [asdict(message) for message in messages]))

    def _template(self) -> ChatTemplate:
        if self._loaded.template is None:
            raise RequestError("the model file has no chat template", "use --raw to give the prompt to the model as it is")
        return self._loaded.template

    def _drafter(self) -> Drafter:
        if self.reason or self._loaded.draft is None:
            return NoDrafter()
        return ModelDrafter(self._loaded.draft, self._loaded.n_shared_vocab, self._loaded.tokenizer.end_tokens)

    def _warm_up(self) -> float:
        """Touch the weights, and measure T(1) of the target; milliseconds."""
        if self._loaded.draft is not None and not self.reason:
            _one_row_ms(self._loaded.draft, 1, self._clock)
        return _one_row_ms(self._loaded.target, _N_TIMED_PASSES, self._clock)


def _messages(given: object) -> list[Message]:
    """Chat messages, whichever way they were written. Raises RequestError for anything else."""
    found = []
    for item in given if isinstance(given, list | tuple) else [given]:
        if isinstance(item, Message):
            found.append(item)
        elif isinstance(item, Mapping) and all(isinstance(item.get(key), str) for key in ("role", "content")):
            found.append(Message(item["role"], item["content"]))
        else:
            raise RequestError(
                f"a prompt cannot be made of {type(item).__name__}", 'give a text, or messages with a "role" and a "content"'
            )
    return found


def _one_row_ms(model: LanguageModel, n_timed: int, clock: Callable[[], float]) -> float:
    """Time of a pass over one row at the beginning of the context, after one pass that is not counted.

    The second fastest of `n_timed`: another program can only slow a pass down, and what depends on T(1) must not call that a
    speed-up; the very fastest may have been luck.
    """
    times = []
    for _ in range(1 + n_timed):
        sequence = model.open()  # a new one for each pass: the context may have room for one row only
        try:
            began = clock()
            model.evaluate([Segment(sequence, (0,))]).argmax([0])
            times.append((clock() - began) * 1e3)
            sequence.commit([0])
        finally:
            sequence.close()
    return sorted(times[1:])[min(1, n_timed - 1)]


def _policy(options: SpeculationOptions) -> FixedPolicy:
    return FixedPolicy(options.draft_max, options.draft_p_min, options.draft_min)


def _rule(sampling: SamplingOptions, speculation: SpeculationOptions, *, has_seed: bool) -> str:
    if sampling.temperature == 0:
        return "greedy"
    return speculation.verify or ("match" if has_seed else "rejection")


def _why_inactive(settings: Settings, loaded: Loaded) -> str:
    """Why speculation cannot run with these settings and models; "" if it can. Raises ConfigError for a contradiction."""
    speculation = settings.speculation
    if speculation.plain:
        return "plain decoding was asked for (--plain)"
    if speculation.drafter == "none":
        return "no drafter was asked for (--drafter none)"
    if loaded.draft is None:
        if speculation.drafter == "model":
            raise ConfigError("--drafter model has no draft model to ask", "name one with -md, or drop --drafter")
        return "there is no draft model (-md)"
    if speculation.draft_max == 0:
        return "drafts of 0 tokens were asked for (--draft-max 0)"
    for role, model in (("target", loaded.target), ("draft", loaded.draft)):
        if model.capabilities.rollback == "none":
            return f"the {role} model cannot drop refused tokens from its cache"
    return ""


def _provenance(settings: Settings) -> dict[str, dict[str, Any]]:
    values: dict[str, Any] = {}
    for group in (settings.model, settings.sampling, settings.speculation, settings.generation):
        values |= asdict(group)
    return {
        name: {"value": list(value) if isinstance(value, tuple) else value, "origin": settings.origins.get(name, "default")}
        for name, value in values.items()
    }
