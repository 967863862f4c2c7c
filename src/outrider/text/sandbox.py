"""A jinja2 sandbox for templates from untrusted files: nothing can be reached, and no operation is without a price.

jinja2's immutable sandbox keeps a template away from Python's internals, but lets it loop and multiply as it likes.
Here attributes, methods, filters and globals are lists of what is allowed; every operation that can make something big
is paid for from a `Budget` before it runs; and the parsed template is instrumented so that every statement pays too.
"""

from __future__ import annotations

import html
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Final

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.tests import TESTS
from jinja2.utils import Cycler, Joiner, Namespace, pass_context

from outrider.text.budget import Budget, BudgetError
from outrider.text.instrument import instrument

BUDGET: Final = "<budget>"
"""Where a rendering's Budget sits in its context: no template can spell this name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MAX_BITS: Final = 4096
_WIDTH: Final = re.compile(r"\d{4}|\*")
_METHODS: Final[dict[type, frozenset[str]]] = {
    str: _words(
        "capitalize count endswith find format index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper"
        " join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split"
        " splitlines startswith strip swapcase title upper"
    ),
    list: _words("copy count index"),
    tuple: _words("count index"),
    dict: _words("copy get items keys values"),
}
# These look at a value's outside only; all others may walk through everything inside it.
_SHALLOW_FILTERS: Final = _words("batch count d default first items last length list map reject rejectattr reverse select selectattr")
_DEEP_FILTERS: Final = _words(
    "abs capitalize center dictsort float format groupby indent int join lower max min replace round sort string sum title trim"
    " unique upper wordcount"
)
_SHALLOW_TESTS: Final = _words(
    "boolean callable defined false filter float integer iterable mapping none number sequence string test true undefined"
)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The environment that chat templates are compiled and rendered in, set up as they expect it.

    Use `compile_template`, then render with a Budget in the context under the name BUDGET. Rendering may raise anything
    that Python's operators raise, besides jinja2's TemplateError.
    """

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationBlock], finalize=_write, cache_size=0)
        self.filters = {name: _metered_filter(name, FILTERS[name], deep=False) for name in _SHALLOW_FILTERS}
        self.filters |= {name: _metered_filter(name, FILTERS[name], deep=True) for name in _DEEP_FILTERS}
        self.filters |= {"tojson": _to_json, "safe": _as_text, "e": _escape, "escape": _escape, "forceescape": _escape}
        self.tests = {name: _metered_test(test, deep=name not in _SHALLOW_TESTS) for name, test in TESTS.items()}
        self.globals = {name: self.globals[name] for name in ("range", "dict", "namespace", "cycler", "joiner")}
        # The instrumented template calls these by name.
        self.tick, self.concatenate, self.checked, self.sliced = _tick, _concatenate, _checked, _sliced

    def compile_template(self, source: str) -> Any:
        """A jinja2 Template. Raises TemplateSyntaxError, or what Python raises for code that is too deep."""
        tree = instrument(self.parse(source))
        return self.template_class.from_code(self, self.compile(tree), self.make_globals(None))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Methods of plain data from a list, and the public attributes of jinja2's own helpers; nothing else."""
        for kind, allowed in _METHODS.items():
            if isinstance(obj, kind):
                return attr in allowed
        if isinstance(obj, LoopContext | Namespace | Cycler | Joiner | Macro):
            return bool(super().is_safe_attribute(obj, attr, value))
        return False

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` with its field widths checked; jinja2 calls this for every attribute that it reads."""
        if getattr(value, "__name__", "") != "format" or not isinstance(getattr(value, "__self__", None), str):
            return None
        pattern: str = value.__self__

        def formatted(*args: Any, **kwargs: Any) -> str:
            _check_widths(pattern, "{")
            return SandboxedFormatter(self).vformat(pattern, args, kwargs)

        formatted.writes = True  # type: ignore[attr-defined]  # `call` asks for it
        return formatted

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Subscription; a key is plain: hashing nested tuples has no bound."""
        if isinstance(argument, tuple):
            raise BudgetError("it uses a list of keys as one key")
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # the parameter names are jinja2's
        """An arithmetic operator, paid for before it runs."""
        budget = _budget(context)
        budget.spend(_price(operator, left, right))
        if operator == "%" and isinstance(left, str):
            _check_widths(left, "%")
            budget.spend_on_all(right, data_only=True)
        return self.binop_table[operator](left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call, paid for before and after it runs."""
        if any(obj is function for function in (_tick, _concatenate, _checked, _sliced)):
            return obj(context, *args)
        budget = _budget(context)
        budget.spend(1)
        if not isinstance(obj, Macro | LoopContext) and obj is not Namespace:
            budget.spend_on_all((args, kwargs), data_only=getattr(obj, "writes", False))
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name in ("join", "replace"):
            args = _listed(args)
            budget.spend(_PRICES[name](owner, *args) if name == "replace" else _join_price(args[0] if args else (), owner))
        result = super().call(context, obj, *args, **kwargs)
        budget.spend(_size(result))
        return result


class _GenerationBlock(Extension):
    """`{% generation %}`: marks the assistant's own words for training; here its body is simply written."""

    tags = {"generation"}  # noqa: RUF012  # jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _budget(context: Context) -> Budget:
    budget: Budget = context.parent[BUDGET]
    return budget


def _size(value: object) -> int:
    return len(value) if isinstance(value, Sized) and isinstance(value, str | list | tuple | dict | range) else 1


def _listed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same arguments with iterators turned into lists, so that their price can be known."""
    return tuple(list(item) if isinstance(item, Iterator) else item for item in args)


@pass_context
def _tick(context: Context, units: int) -> str:
    _budget(context).spend(units)
    return ""


@pass_context
def _write(context: Context, value: object) -> str:
    _budget(context).spend_on_all(value, data_only=True)
    return str(value)


@pass_context
def _concatenate(context: Context, *values: object) -> str:
    _budget(context).spend_on_all(values, data_only=True)
    return "".join(map(str, values))


@pass_context
def _checked(context: Context, value: Any) -> Any:
    """An operand of a comparison or a key: strings are cheap to compare, nested values may not be."""
    if isinstance(value, str):
        _budget(context).spend(1 + len(value) // 64)
    else:
        _budget(context).spend_on_all(value)
    return value


@pass_context
def _sliced(context: Context, value: Any) -> Any:
    _budget(context).spend(1 + _size(value))
    return value


def _price(name: str, left: Any, right: Any) -> int:
    """Units of a binary operator's result. Raises BudgetError for a number too big to be meant."""
    if name == "*":
        for sequence, count in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple) and isinstance(count, int):
                return 1 + len(sequence) * max(0, count)
    if name == "+":
        return 1 + sum(len(side) for side in (left, right) if isinstance(side, str | list | tuple))
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * abs(right) if name == "**" else left.bit_length() + right.bit_length()
        if bits > _MAX_BITS:
            raise BudgetError("it computes a number of thousands of digits")
    return 1


def _check_widths(pattern: str, opening: str) -> None:
    """Refuse field widths that would blow a short value up ("%1000000d"), or that come from a value ("%*d", "{:{}}")."""
    if opening == "{" and re.search(r"\{[^{}]*\{", pattern.replace("{{", "")):
        raise BudgetError("it formats a value to a width that it computes")
    ends = "}" if opening == "{" else r"[a-zA-Z%]"
    fields = [pattern] if "%(" in pattern and opening == "%" else pattern.split(opening)[1:]
    for field in fields:
        specification = field if len(fields) == 1 else re.split(ends, field, maxsplit=1)[0]
        if _WIDTH.search(specification):
            raise BudgetError("it formats a value to a huge width")


def _replace_price(text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    return len(str(text)) + str(text).count(str(old)) * len(str(new))


def _join_price(items: Any, separator: Any = "", *_: Any, **__: Any) -> int:
    return (len(items) if isinstance(items, Sized) else 1) * len(str(separator))


def _indent_price(text: Any, width: Any = 4, *_: Any, **__: Any) -> int:
    return (str(text).count("\n") + 1) * (width if isinstance(width, int) else len(str(width)))


def _width_price(_: Any, width: Any = 0, *__: Any, **___: Any) -> int:
    return int(width)


def _sum_price(*args: Any, **kwargs: Any) -> int:
    start = kwargs.get("start", args[2] if len(args) > 2 else 0)
    if not isinstance(start, int | float):
        raise BudgetError("it sums up something that is no number")
    return 1


def _format_price(pattern: Any, *_: Any, **__: Any) -> int:
    _check_widths(str(pattern), "%")
    return 1


_PRICES: Final[dict[str, Callable[..., int]]] = {
    "replace": _replace_price,
    "join": _join_price,
    "indent": _indent_price,
    "batch": _width_price,
    "center": _width_price,
    "sum": _sum_price,
    "format": _format_price,
}


def _metered_filter(name: str, function: Callable[..., Any], *, deep: bool) -> Callable[..., Any]:
    """One of jinja2's filters, paid for before it runs (what it walks through, what it makes) and after."""
    passes = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def metered(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.spend(1)
        if deep:
            args = _listed(args)
            budget.spend_on_all((args, kwargs), data_only=True)
        if name in _PRICES:
            budget.spend(_PRICES[name](*args, **kwargs))
        first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}.get(passes, ())
        result = function(*first, *args, **kwargs)
        budget.spend(_size(result))
        return result

    return metered


def _metered_test(function: Any, *, deep: bool) -> Callable[..., Any]:
    passes = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def metered(context: Context, *args: Any) -> Any:
        for value in args if deep else ():
            _checked(context, value)
        return function(context.environment, *args) if passes == "environment" else function(*args)

    return metered


@pass_context
def _to_json(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates mean it: not escaped for HTML, unlike jinja2's own filter (and never escaped later, see `_as_text`)."""
    value = list(value) if isinstance(value, Iterable) and not isinstance(value, str | list | tuple | Mapping) else value
    budget = _budget(context)
    before = budget.units
    budget.spend_on_all(value, data_only=True)
    if indent is not None:
        budget.spend((before - budget.units) * min(max(operator.index(indent), 0), 1 << 30))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@pass_context
def _as_text(context: Context, value: object) -> str:
    """`safe`: plain text; jinja2's Markup would escape whatever is added to it."""
    return _write(context, value)


@pass_context
def _escape(context: Context, value: object) -> str:
    return html.escape(_write(context, value))
