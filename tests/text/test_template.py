"""Chat templates: what trusted ones rely on, what hostile ones try, and the real models' own."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from outrider.errors import ModelFileError, RequestError
from outrider.gguf import read_header
from outrider.testing import ByteTokenizer
from outrider.text.budget import Budget, BudgetError
from outrider.text.template import ChatTemplate, TemplateLimits

USER = [{"role": "user", "content": "Hi"}]
TALK = [*USER, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "ä & <b>"}]
TOOL = {"type": "function", "function": {"name": "now", "description": "Zeit für <alle>", "parameters": {}}}
CHATML = (
    "{% for message in messages %}\n"
    "    {%- if message.role != 'note' %}\n"
    "{{ '<|im_start|>' + message.role + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}\n"
    "<|im_start|>assistant\n"
    "{% endif %}\n"
)


def render(source: str, messages: list[dict[str, object]] | None = None, **extra: object) -> str:
    return ChatTemplate(source, "<s>", "</s>", path="m.gguf").render(messages if messages is not None else USER, extra=extra)


def test_messages_become_the_models_own_format() -> None:
    assert ChatTemplate(CHATML).render(TALK) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nä & <b><|im_end|>\n<|im_start|>assistant\n"
    )
    assert ChatTemplate(CHATML).render(USER, add_generation_prompt=False) == "<|im_start|>user\nHi<|im_end|>\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}|{{ eos_token }}", "<s>|</s>"),
        ("{{ tools is none }} {{ documents is none }} {{ nothing is defined }}", "True True False"),
        ("{{ thinking }}", "yes"),
        ("{{ {'b': '<é>', 'a': [1, none, true]} | tojson }}", '{"b": "<é>", "a": [1, null, true]}'),
        ("{{ ['x'] | tojson(indent=2) }}", '[\n  "x"\n]'),
        ("{{ '<' | e }} {{ '<' | safe + '>' }}", "&lt; <>"),
        ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
        ("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "02"),
        ("{% generation %}{{ 'a' }}b{% endgeneration %}", "ab"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
        ("{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('ab') }}", "abab"),
        ("{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", "12"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}", "Hi"),
        ("{{ messages[::-1][0].content }} {{ messages[-1]['content'][0:1] }}", "Hi H"),
        ("{{ 'a,b'.split(',') | last }}{{ ' x '.strip() }}{{ 'abc'.replace('b', 'x') }}{{ '{} {:>3}'.format(1, 'y') }}", "bxaxc1   y"),
        ("{{ '%s-%02d' % ('a', 5) }} {{ 'ab' * 2 }} {{ 7 // 2 }} {{ 2 ** 10 }} {{ 'a' ~ 1 ~ none }}", "a-05 abab 3 1024 a1None"),
        ("{{ messages[0].get('name', '?') }} {{ messages[0].items() | list | length }} {{ {'k': 1}.k }}", "? 2 1"),
        ("{% if 'user' in messages[0].role and messages[0] != messages %}x{% endif %}", "x"),
        ("{% set x %}in{% endset %}{% filter upper %}{{ x }}{% endfilter %}", "IN"),
    ],
)
def test_what_templates_rely_on(source: str, expected: str) -> None:
    template = ChatTemplate(source, "<s>", "</s>", now=lambda: datetime(2024, 7, 26))  # noqa: DTZ001  # templates want local time
    assert template.render(USER, extra={"thinking": "yes", "messages": "not mine to replace"}) == expected


def test_tools_reach_the_template() -> None:
    assert ChatTemplate("{{ tools | tojson }}").render(USER, tools=[TOOL]) == (
        '[{"type": "function", "function": {"name": "now", "description": "Zeit für <alle>", "parameters": {}}}]'
    )


def test_a_template_that_refuses_is_a_request_error() -> None:
    with pytest.raises(RequestError, match="can't express this conversation: roles must alternate") as caught:
        render("{{ raise_exception('roles must\n alternate') }}")
    assert "--raw" in caught.value.hint


def test_a_message_without_role_is_a_request_error() -> None:
    with pytest.raises(RequestError, match="message 2 of the conversation has no role"):
        render(CHATML, [*USER, {"content": "x"}])


REACH = {
    "class": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{% for c in ().__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}",
    "globals of a helper": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "globals of a macro": "{% macro m() %}{% endmacro %}{{ m._func.__globals__['x'] }}",
    "globals of a function": "{{ raise_exception.__globals__['x'] }}",
    "subscript": "{{ ''['__class__']['__mro__'] }}",
    "format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "format of an object": "{{ '{0}'.format(raise_exception) }}",
    "format_map": "{{ '{x}'.format_map({'x': 1}) }}",
    "the attr filter": "{{ '' | attr('__class__') }}",
    "format behind a filter": "{{ ['{0.__class__}'.format] | map('call', '') | list }}",
    "the template itself": "{{ self.__init__.__globals__['x'] }}",
    "a generator's frame": "{{ ([1] | map('string')).gi_frame.f_globals }}",
    "its own payments": "{{ tick(-1000000) }}",
    "its own budget": "{{ context.parent['<budget>'].units }}",
    "append": "{{ messages.append(1) }}",
    "pop": "{{ messages[0].pop('role') }}",
    "clear": "{{ messages[0].clear() }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "extends": "{% extends 'x' %}",
    "debug": "{% debug %}",
    "an integer's bytes": "{{ (5).to_bytes(9, 'big') }}",
    "writing an object": "{{ namespace(x=1) }}",
    "writing an object with %": "{{ '%s' % namespace(x=1) }}",
    "writing an object as JSON": "{{ [self] | tojson }}",
}


@pytest.mark.parametrize("source", REACH.values(), ids=REACH)
def test_nothing_outside_the_template_can_be_reached(source: str) -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "Hi"}]
    with pytest.raises(ModelFileError) as caught:
        render(source, messages)
    assert messages == [{"role": "user", "content": "Hi"}]
    assert caught.value.path == "m.gguf"
    assert "--raw" in caught.value.hint


LAUGHS = (
    "{% set n = namespace(x=['ha'], y=['ha']) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}"
)
TUPLES = "{% set n = namespace(x=('ha',)) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}"
BOMBS = {
    "a string times a number": "{{ 'a' * 10 ** 10 }}",
    "a number times a list": "{{ (10 ** 10 * [0]) | length }}",
    "a power": "{{ 2 ** 100000000 }}",
    "squares": "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "a range": "{{ range(10 ** 9) | list }}",
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops that write": "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}",
    "a loop's condition": "{% for a in range(99999) if a in range(99999) | list %}{% endfor %}",
    "doubling with ~": "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "doubling with +": "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "doubling with set": (
        "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set y %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = y %}{% endfor %}"
    ),
    "a macro for ever": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a macro that branches": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "a loop into itself": "{% for x in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "shared lists written": LAUGHS + "{{ n.x }}",
    "shared lists as JSON": LAUGHS + "{{ n.x | tojson }}",
    "shared lists compared": LAUGHS + "{% if n.x == n.y %}{% endif %}",
    "shared lists tested": LAUGHS + "{% if n.x is eq(n.y) %}{% endif %}",
    "shared lists searched": LAUGHS + "{% if n.x in [n.y] %}{% endif %}",
    "shared tuples as a key": TUPLES + "{{ {n.x: 1} }}",
    "shared tuples as a subscript": TUPLES + "{{ {}[n.x] }}",
    "shared tuples as an argument": TUPLES + "{{ {}.get(n.x) }}",
    "shared tuples in a filter": TUPLES + "{{ [n.x] | unique | list }}",
    "a width with %": "{{ '%1000000000d' % 1 }}",
    "a width with % and a key": "{{ '%(a(b)c)1000000000d' % {'a(b)c': 1} }}",
    "a width from a value": "{{ '%*d' % (10 ** 9, 1) }}",
    "a width with format": "{{ '{:1000000000}'.format('x') }}",
    "a width from format's value": "{{ '{:{}}'.format('x', 10 ** 9) }}",
    "a width in a filter": "{{ ['%1000000000d'] | map('format', 1) | list }}",
    "center": "{{ 'x' | center(10 ** 10) }}",
    "ljust": "{{ 'x'.ljust(10 ** 10) }}",
    "indent": "{{ ('\n' * 99999) | indent(width=99999) }}",
    "JSON's indent": "{{ ([[1] * 1000] * 100) | tojson(indent=10 ** 9) }}",
    "replace": "{{ ('a' * 999999).replace('', 'b' * 99999) }}",
    "the replace filter": "{{ ('a' * 999999) | replace('a', 'b' * 99999) }}",
    "join": "{{ ('x' * 99999).join(['a'] * 99999) }}",
    "the join filter": "{{ range(99999) | join('x' * 99999) }}",
    "batch": "{{ [1] | batch(10 ** 10, 'x') | list }}",
    "sum of lists": "{{ ([[1] * 999] * 99) | sum(start=[]) }}",
    "lorem ipsum": "{{ lipsum(n=10 ** 9) }}",
}


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS)
def test_no_template_runs_or_grows_without_end(source: str) -> None:
    limits = TemplateLimits(units=1 << 19)
    with pytest.raises(ModelFileError) as caught:
        ChatTemplate(source, limits=limits).render(USER)
    assert len(caught.value.message) < 300
    assert caught.value.message.isprintable()


BROKEN = {
    "a syntax error": ("{% if %}", "wrong in line 1"),
    "an unknown tag": ("a\n{% frobnicate %}", "wrong in line 2"),
    "an unknown filter": ("{{ 1 | urlize }}", "No filter named 'urlize'"),
    "too long": ("x" * 70_000, "70000 characters"),
    "too deep": ("{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}", "compiled"),
    "too many nested loops": ("{% for x in [1] %}" * 30 + "{% endfor %}" * 30, "compiled"),
    "a long sum": ("{{ 1" + "+1" * 20_000 + " }}", "compiled"),
    "a huge number": ("{{ " + "9" * 5_000 + " }}", "compiled"),
}


@pytest.mark.parametrize(("source", "message"), BROKEN.values(), ids=BROKEN)
def test_a_template_that_cannot_be_compiled(source: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        ChatTemplate(source)


FAILING = ["{{ 1 / 0 }}", "{{ nothing.at.all }}", "{{ 'a' + 1 }}", "{{ messages[0].content() }}", "{{ [1] | round }}"]


@pytest.mark.parametrize("source", FAILING)
def test_a_template_that_fails(source: str) -> None:
    with pytest.raises(ModelFileError, match="the chat template failed"):
        render(source)


def test_a_template_ends_at_its_deadline() -> None:
    with pytest.raises(ModelFileError, match="takes too long"):
        ChatTemplate("{{ 1 }}", limits=TemplateLimits(seconds=-1.0)).render(USER)


def test_the_budget_grows_with_the_input() -> None:
    source = "{% for m in messages %}{{ m.content }}{% endfor %}"
    template = ChatTemplate(source, limits=TemplateLimits(units=10))
    assert len(template.render([{"role": "user", "content": "x" * 10_000}])) == 10_000


def test_a_budget_is_paid_before_the_work() -> None:
    budget = Budget(10)
    with pytest.raises(BudgetError):
        budget.spend_on_all("x" * 100)
    assert budget.units < 0


def test_renderings_do_not_share_a_budget() -> None:
    template = ChatTemplate("{% for i in range(40) %}x{% endfor %}", limits=TemplateLimits(units=1000, units_per_input=0))
    assert [template.render(USER) for _ in range(50)] == ["x" * 40] * 50


def of_file(path: Path) -> ChatTemplate:
    return ChatTemplate(read_header(path).string("tokenizer.chat_template"), path=str(path))


def test_smollm2_writes_its_own_system_message(smollm2_path: Path) -> None:
    template = of_file(smollm2_path)
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    assert template.render(TALK) == (
        system + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nä & <b><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert template.render([{"role": "system", "content": "Be brief."}, *USER], add_generation_prompt=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    )


def test_qwen_coder_writes_its_own_system_message(qwen_draft_path: Path) -> None:
    template = of_file(qwen_draft_path)
    system = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    assert template.render(TALK) == (
        system + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nä & <b><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert template.render([{"role": "system", "content": "Be brief."}, *USER], add_generation_prompt=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    )


def test_qwen_coder_knows_tools(qwen_draft_path: Path) -> None:
    call = {"type": "function", "function": {"name": "now", "arguments": {"zone": "CET"}}}
    messages = [*USER, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "12:00"}]
    text = of_file(qwen_draft_path).render(messages, tools=[TOOL])
    assert f"<tools>\n{json.dumps(TOOL, ensure_ascii=False)}\n</tools>" in text
    assert text.endswith(
        '<|im_start|>assistant\n<tool_call>\n{"name": "now", "arguments": {"zone": "CET"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n12:00\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


class _WithBos(ByteTokenizer):
    """Begins every text with special token 256 unless told not to."""

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> list[int]:
        tokens = super().encode(text, parse_special=parse_special, add_bos=add_bos)
        return [256, *tokens] if add_bos else tokens


@pytest.mark.parametrize("source", ["{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"])
def test_a_text_begins_with_one_bos_whoever_writes_it(source: str) -> None:
    tokenizer = _WithBos(specials=("<s>",), end=())
    template = ChatTemplate(source, bos="<s>")
    assert template.encode(tokenizer, template.render([{"role": "user", "content": "a"}])) == [256, 97]
