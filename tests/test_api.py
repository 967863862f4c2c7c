"""The public interface on table models: text, tokens, the JSON document, reasons, seeds, chat."""

from __future__ import annotations

import json
import math
from threading import Event
from typing import Any

import pytest

from outrider.chat import Message
from outrider.config import GenerationOptions, SamplingOptions, SpeculationOptions
from outrider.errors import ConfigError, ContextLengthError, EmptyPromptError, EngineError, RequestError
from outrider.session import TokenEvent
from outrider.testing import ByteTokenizer, TableModel
from outrider.types import Logits, StopReason, TokenKind
from tests.pairs import make_pair

ANSWER = "def f(x):\n    return 'é€😀'\n"


def test_the_answer_is_the_model_s_and_the_end_token_is_not_part_of_it() -> None:
    with make_pair(ANSWER) as pair:
        result = pair.generate("write f")
    assert result.text == ANSWER
    assert result.stop_reason is StopReason.END_OF_GENERATION
    assert "".join(result.token_texts) == ANSWER


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(5))
def test_with_a_seed_the_text_is_that_of_plain_decoding(temperature: float, seed: int) -> None:
    sampling = SamplingOptions(temperature=temperature, seed=seed)
    with make_pair(sampling=sampling) as pair, make_pair(sampling=sampling, draft=False) as plain:
        ours, theirs = pair.generate("hello"), plain.generate("hello")
    assert ours.text == theirs.text
    assert [token.id for token in ours.tokens] == [token.id for token in theirs.tokens]
    assert ours.metrics.drafted
    assert not theirs.metrics.drafted


def test_events_arrive_in_order_and_make_up_the_text() -> None:
    events: list[TokenEvent] = []
    with make_pair() as pair:
        result = pair.generate("hello", on_token=events.append)
    assert "".join(event.text for event in events) == result.text
    assert [event.token for event in events if event.token] == result.tokens
    n_rejected = sum(len(event.rejected) for event in events)
    assert 0 < n_rejected <= result.metrics.drafted - result.metrics.accepted
    assert all(event.token and event.token.kind is TokenKind.RECOVERED for event in events if event.rejected)


@pytest.mark.parametrize("stop", ["return", "turn '", "é", "€😀'", "\n"])
def test_stop_strings_cut_text_and_tokens_alike(stop: str) -> None:
    with make_pair(ANSWER) as pair:
        result = pair.generate("x", GenerationOptions(stop=(stop, "never")))
    assert result.text == ANSWER[: ANSWER.index(stop)]
    assert "".join(result.token_texts) == result.text
    assert (result.stop_reason, result.stop_string) == (StopReason.STOP_STRING, stop)


def test_a_cancelled_generation_keeps_what_it_has() -> None:
    cancel = Event()
    events: list[TokenEvent] = []

    def on_token(event: TokenEvent) -> None:
        events.append(event)
        if len(events) == 5:
            cancel.set()

    with make_pair(ANSWER) as pair:
        result = pair.generate("x", on_token=on_token, cancel=cancel)
        assert result.stop_reason is StopReason.CANCELLED
        assert ANSWER.startswith(result.text.rstrip("\ufffd"))
        assert 5 <= len(result.tokens) < 30
        assert pair.generate("x").text == ANSWER


class TestDocument:
    """The JSON contract."""

    @pytest.fixture
    def document(self) -> dict[str, Any]:
        with make_pair() as pair:
            text = json.dumps(pair.generate("hello").document(), allow_nan=False)
        parsed: dict[str, Any] = json.loads(text)
        return parsed

    def test_texts_concatenate(self, document: dict[str, Any]) -> None:
        assert "".join(token["text"] for token in document["tokens"]) == document["text"]
        assert {token["kind"] for token in document["tokens"]} <= {"accepted", "recovered", "bonus", "plain"}
        assert {token["source"] for token in document["tokens"]} == {"target", "model"}

    def test_timings_add_up(self, document: dict[str, Any]) -> None:
        timings = document["timings"]
        assert timings["decode_tokens"] == len(document["tokens"]) - 1
        assert math.isclose(timings["tokens_per_second"], timings["decode_tokens"] / timings["decode_ms"] * 1e3)
        assert timings["prompt_ms"] + timings["decode_ms"] <= timings["total_ms"]
        assert timings["prompt_tokens"] == timings["prompt_evaluated"]

    def test_speculation_adds_up(self, document: dict[str, Any]) -> None:
        report = document["speculation"]
        assert report["active"]
        assert report["reason"] == ""
        assert report["acceptance_rate"] == report["accepted"] / report["drafted"]
        assert report["accepted"] == sum(token["kind"] == "accepted" for token in document["tokens"])
        assert report["block_efficiency"] == len(document["tokens"]) / report["steps"]
        assert report["by_drafter"]["model"]["drafted"] == report["drafted"]
        assert report["estimated_speedup"] > 0

    def test_every_option_says_where_it_came_from(self, document: dict[str, Any]) -> None:
        assert {"model", "draft_max", "temperature", "stop", "threads"} <= set(document["config"])
        assert all(set(entry) == {"value", "origin"} for entry in document["config"].values())
        assert document["config"]["seed"]["origin"] == "drawn"
        assert document["config"]["context"]["value"] == 2048

    def test_no_tokens_is_a_document_too(self) -> None:
        with make_pair("") as pair:
            document = pair.generate("hello").document()
        assert document["tokens"] == []
        assert document["timings"]["tokens_per_second"] is None
        assert document["speculation"]["acceptance_rate"] is None
        json.dumps(document, allow_nan=False)


class TestReasons:
    """Nothing is silently off."""

    @pytest.mark.parametrize(
        ("speculation", "draft", "words"),
        [
            (SpeculationOptions(plain=True), True, "--plain"),
            (SpeculationOptions(drafter="none"), True, "--drafter none"),
            (SpeculationOptions(draft_max=0), True, "--draft-max 0"),
            (SpeculationOptions(), False, "no draft model"),
        ],
    )
    def test_inactive(self, speculation: SpeculationOptions, draft: bool, words: str) -> None:
        with make_pair(ANSWER, speculation=speculation, draft=draft) as pair:
            result = pair.generate("x")
        report = result.document()["speculation"]
        assert not report["active"]
        assert words in report["reason"]
        assert report["drafted"] == 0
        assert result.text == ANSWER

    def test_a_drafter_that_is_never_sure(self) -> None:
        with make_pair(speculation=SpeculationOptions(draft_p_min=1.0)) as pair:
            result = pair.generate("x")
        assert result.is_active
        assert "never sure" in result.reason

    def test_asking_for_a_draft_model_that_is_not_there(self) -> None:
        with pytest.raises(ConfigError, match="-md"):
            make_pair(draft=False, speculation=SpeculationOptions(drafter="model"))

    def test_a_model_that_cannot_drop_tokens(self) -> None:
        pair = make_pair(ANSWER)
        target = pair.engine.target
        assert isinstance(target, TableModel)
        target.with_capabilities(rollback="none")
        again = type(pair)(pair._loaded, pair.settings)
        result = again.generate("x")
        assert "cannot drop refused tokens" in result.reason
        assert result.text == ANSWER


class TestBadInput:
    """Clear errors, and the pair works afterwards."""

    def test_empty_prompts(self) -> None:
        with make_pair(ANSWER) as pair:
            for prompt in ("", " \n"):
                with pytest.raises(EmptyPromptError):
                    pair.generate(prompt)
            assert pair.generate("x").text == ANSWER

    def test_a_prompt_longer_than_the_context(self) -> None:
        with make_pair(ANSWER, n_context=64) as pair:
            with pytest.raises(ContextLengthError, match="64"):
                pair.generate("x" * 100)
            assert pair.generate("x").text == ANSWER

    def test_no_chat_template(self) -> None:
        with make_pair(ANSWER, template=None) as pair:
            with pytest.raises(RequestError, match="--raw"):
                pair.generate("x")
            with pytest.raises(RequestError, match="--raw"):
                pair.chat()
            assert pair.generate("<|assistant|>", GenerationOptions(raw=True)).text == ANSWER

    def test_messages_may_be_mappings(self) -> None:
        with make_pair(ANSWER) as pair:
            assert pair.encode([{"role": "user", "content": "x"}]) == pair.encode([Message("user", "x")]) == pair.encode("x")

    @pytest.mark.parametrize("prompt", [None, b"x", 7, [None], ["x"], [{"role": "user"}], [{"role": "user", "content": None}]])
    def test_what_is_no_prompt(self, prompt: Any) -> None:
        with make_pair(ANSWER) as pair, pytest.raises(RequestError, match="cannot be made of"):
            pair.generate(prompt)

    def test_raw_messages(self) -> None:
        with make_pair(ANSWER) as pair, pytest.raises(RequestError, match="raw"):
            pair.generate([Message("user", "x")], GenerationOptions(raw=True))


def test_seeds() -> None:
    with make_pair(sampling=SamplingOptions(temperature=1.0, seed=7)) as pair:
        first, second = pair.generate("x"), pair.generate("x")
        other = pair.generate("x", sampling=SamplingOptions(temperature=1.0, seed=8))
    assert first.text == second.text != other.text
    assert first.config["verify"]["value"] == "match"
    assert first.config["seed"] == {"value": 7, "origin": "default"}


@pytest.mark.parametrize("seed", [None, -1])
def test_without_a_seed_one_is_drawn_and_reported_and_gives_the_same_text_again(seed: int | None) -> None:
    with make_pair(sampling=SamplingOptions(temperature=1.0, seed=seed)) as pair:
        drawn = pair.generate("x")
        assert drawn.config["verify"]["value"] == "rejection"
        number = drawn.config["seed"]["value"]
        again = SamplingOptions(temperature=1.0, seed=number)
    with make_pair(sampling=again, speculation=SpeculationOptions(draft_p_min=0.0, verify="rejection")) as pair:
        assert pair.generate("x").text == drawn.text


class TestChat:
    """Turns reuse both caches."""

    def test_the_second_turn_evaluates_only_what_it_adds(self) -> None:
        with make_pair(ANSWER) as pair:
            chat = pair.chat()
            first = chat.send("one")
            second = chat.send("two")
            assert first.text == second.text == ANSWER
            # the last token of the answer was pending; then <|end|>\n<|user|>two<|end|>\n<|assistant|>
            assert second.timings.prompt_evaluated == 1 + 9
            assert second.timings.draft_prompt_evaluated <= 1 + 9
            chat.close()
            assert pair.generate("x").text == ANSWER

    def test_it_says_what_one_prompt_with_the_whole_conversation_would(self) -> None:
        with make_pair() as pair:
            chat = pair.chat()
            chat.send("one")
            chat.send("two")
            third = chat.send("three")
            messages = chat.messages[:-1]
            chat.close()
            assert pair.generate(messages).text == third.text

    def test_a_stop_string_makes_the_next_turn_read_the_shown_text(self) -> None:
        with make_pair(ANSWER, generation=GenerationOptions(stop=("turn",))) as pair:
            chat = pair.chat()
            chat.send("one")
            assert chat.messages[-1].content == "def f(x):\n    re"
            second = chat.send("two")
            assert second.text == "def f(x):\n    re"
            # what came after the stop string is gone from the cache: <|end|>\n<|user|>two<|end|>\n<|assistant|> follows the shown text
            assert second.timings.prompt_evaluated == 9

    def test_a_refused_message_leaves_the_conversation(self) -> None:
        with make_pair(ANSWER, n_context=128) as pair:
            chat = pair.chat("be brief")
            chat.send("one")
            before = chat.messages
            for text, error in (("x" * 500, ContextLengthError), ("  ", RequestError)):
                with pytest.raises(error):
                    chat.send(text)
            assert chat.messages == before
            assert chat.send("y").text == ANSWER[: len(chat.messages[-1].content)]

    def test_reset_forgets(self) -> None:
        with make_pair(ANSWER) as pair:
            chat = pair.chat("system")
            chat.send("one")
            chat.reset()
            assert [message.role for message in chat.messages] == ["system"]
            assert chat.send("two").text == ANSWER


class TestSpeedUp:
    """The estimate is not made of noise."""

    def test_a_busy_moment_while_loading_does_not_become_a_speed_up(self) -> None:
        times = iter([5.0, 900.0, 40.0, 700.0, 800.0, 60.0])  # ms of the passes that measure T(1); the first is not counted
        clock = _Clock()
        pair = make_pair(ANSWER, draft=False)
        target = pair.engine.target
        assert isinstance(target, TableModel)
        table = target.table
        target.table = lambda history: clock.spend(next(times, 1.0), table(history))
        again = type(pair)(pair._loaded, pair.settings, clock)
        assert again.plain_step_ms == pytest.approx(60.0)

    def test_passes_of_the_run_count_where_they_are_faster(self) -> None:
        clock = _Clock()
        pair = make_pair(ANSWER, draft=False)
        target = pair.engine.target
        assert isinstance(target, TableModel)
        table = target.table
        spent = iter([50.0] * 6)
        target.table = lambda history: clock.spend(next(spent, 10.0), table(history))
        again = type(pair)(pair._loaded, pair.settings, clock)
        timings = again.generate("x").timings
        assert timings.plain_step_ms == pytest.approx(10.0)
        assert timings.estimated_speedup == pytest.approx(1.0)


class _Clock:
    """Seconds that pass only when a model spends them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, ms: float, row: Logits) -> Logits:
        self.now += ms / 1e3
        return row


def test_closing_twice_is_harmless() -> None:
    with make_pair("hello") as pair:
        pair.close()
        pair.close()
        with pytest.raises(EngineError, match="closed"):
            pair.generate("hi")


@pytest.mark.parametrize("n_context", [1, 2, 3, 4])
def test_a_tiny_context_is_loaded_all_the_same(n_context: int) -> None:
    with make_pair(n_context=n_context, draft=n_context > 2) as pair:
        raw = GenerationOptions(raw=True)
        if n_context == 1:
            with pytest.raises(ContextLengthError):
                pair.generate("x", raw)
        else:
            result = pair.generate("x", raw)
            assert (len(result.tokens), result.stop_reason) == (n_context, StopReason.CONTEXT)


def test_no_messages_are_no_prompt() -> None:
    with make_pair() as pair, pytest.raises(EmptyPromptError):
        pair.generate([])


class _Boom(BaseException):
    """Something that nobody catches, such as KeyboardInterrupt."""


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("place", ["show", "piece", "target", "draft", "pass"])
def test_a_chat_goes_on_after_an_exception_anywhere(place: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_pair() as pair, make_pair() as other:
        chat, wanted = pair.chat(), other.chat()
        chat.send("one")
        wanted.send("one")
        calls = 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise _Boom

        with monkeypatch.context() as patch:
            model = pair._loaded.draft if place == "draft" else pair.engine.target
            assert isinstance(model, TableModel)
            table, piece = model.table, ByteTokenizer.piece
            if place in ("target", "draft"):
                patch.setattr(model, "table", lambda history: (strike(), table(history))[1])
            if place == "pass":  # right after it, as Ctrl-C comes out of native code: its rows are neither kept nor dropped
                evaluate = TableModel.evaluate
                patch.setattr(TableModel, "evaluate", lambda self, *args: (evaluate(self, *args), strike())[0])
            if place == "piece":
                patch.setattr(ByteTokenizer, "piece", lambda self, token: (strike(), piece(self, token))[1])
            with pytest.raises(_Boom):
                chat.send("two", on_token=lambda event: strike() if place == "show" else None)
        assert chat.send("three").text == wanted.send("three").text
        chat.close()
        wanted.close()


def test_a_closed_chat_that_is_used_again_reads_its_conversation_anew() -> None:
    nothing = GenerationOptions(max_tokens=0)  # an empty answer is a part of every text
    with make_pair(generation=nothing) as pair, make_pair(generation=nothing) as other:
        chat, wanted = pair.chat(), other.chat()
        chat.send("one")
        wanted.send("one")
        chat.close()
        assert chat.send("two").timings.prompt_tokens == wanted.send("two").timings.prompt_tokens
        chat.close()
        wanted.close()
