"""Every error class has an exit code and an HTTP answer, and messages read as one line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outrider import errors
from outrider.errors import EXIT_CODES, HTTP_ERRORS, ModelFileError, OutriderError, exit_code, http_error


def family(cls: type[OutriderError]) -> Iterator[type[OutriderError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from family(child)


def package_family() -> list[type[OutriderError]]:
    return [cls for cls in family(OutriderError) if cls.__module__.startswith("outrider.")]


def test_exit_code_table_is_exhaustive() -> None:
    assert set(EXIT_CODES) == set(package_family())


def test_http_table_is_exhaustive() -> None:
    assert set(HTTP_ERRORS) == set(package_family())


def test_exit_codes_are_unique_and_usable() -> None:
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert all(1 < code <= 130 for code in EXIT_CODES.values())  # 1 is an unexpected exception; a shell takes 128 + n for signals


def test_http_answers_are_errors_with_their_own_code() -> None:
    assert all(400 <= status < 600 for status, _, _ in HTTP_ERRORS.values())
    codes = [code for _, _, code in HTTP_ERRORS.values()]
    assert len(set(codes)) == len(codes)


def test_errors_of_the_client_and_of_the_server_have_the_matching_type() -> None:
    for cls, (status, kind, _) in HTTP_ERRORS.items():
        ours = status >= 500 or issubclass(cls, errors.CancelledError)
        assert kind == ("server_error" if ours else "invalid_request_error"), cls


@pytest.mark.parametrize("cls", package_family(), ids=lambda cls: cls.__name__)
def test_every_class_says_why_it_exists_and_is_drawn_in_the_module(cls: type[OutriderError]) -> None:
    assert cls.__doc__
    assert cls.__name__ in (errors.__doc__ or "")


def test_a_class_outside_the_tables_takes_its_nearest_base() -> None:
    class HomemadeError(errors.ContextLengthError):
        pass

    error = HomemadeError("too long")
    assert exit_code(error) == EXIT_CODES[errors.ContextLengthError]
    assert http_error(error)[0] == HTTP_ERRORS[errors.ContextLengthError][0]


def test_the_hint_follows_the_message() -> None:
    assert str(OutriderError("no", "say yes")) == "no (say yes)"
    assert str(OutriderError("no")) == "no"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ModelFileError("bad magic", "fetch it again", path="a.gguf", offset=0), "a.gguf at byte 0: bad magic (fetch it again)"),
        (ModelFileError("empty", path="a.gguf"), "a.gguf: empty"),
        (ModelFileError("empty"), "empty"),
    ],
)
def test_a_file_error_says_where(error: ModelFileError, text: str) -> None:
    assert str(error) == text


def test_an_http_body_has_openai_s_shape() -> None:
    status, body = http_error(errors.UnknownModelError("no model is called 'x'", "did you mean y?"))
    assert (status, sorted(body["error"])) == (404, ["code", "message", "param", "type"])
    assert body["error"]["message"] == "no model is called 'x' (did you mean y?)"
