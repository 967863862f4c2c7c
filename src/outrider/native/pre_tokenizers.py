"""How text is cut into words before byte pairs are merged, by the file's `tokenizer.ggml.pre`.

The names and expressions are facts of the models' own tokenizer files, read as llama.cpp reads them: where it deviates from
a model's file (tekken, gpt-4o: letters other than A to Z count as both cases), the ids of llama.cpp are what others get.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One way of cutting.

    Attributes:
        expressions: in Oniguruma's syntax; each is applied to what the one before left whole, and what it does not match is a word too.
        whole_words: a word that is a token as it stands is never built from pairs.
    """

    expressions: tuple[str, ...]
    whole_words: bool = False


def _ranges(codes: str) -> str:
    """The inside of a character class from hexadecimal ranges, which can be told apart where the characters look alike."""
    pairs = (code.partition("-") for code in codes.split())
    return "".join(rf"\x{{{low}}}" + (rf"-\x{{{high}}}" if high else "") for low, _, high in pairs)


_UNICODE_16: Final = _ranges(
    "897 1B4E-1B4F 1B7F 1C89-1C8A 2427-2429 31E4-31E5 A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D8F 10EC2-10EFC 11380-113E2 "
    "116D0-116E3 11BC0-11BF9 11F5A 13460-143FA 16100-16139 16D40-16D79 18CFF 1CC00-1CEB3 1E5D0-1E5FF 1F8B2-1F8C1 1FA89-1FA8F "
    "1FABE 1FAC6 1FADC-1FADF 1FAE9 1FBCB-1FBEF"
)
"""Letters and signs that are newer than llama.cpp's table, which has Unicode 15.1; the library's has 16.0."""

_CONTRACTIONS: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES: Final = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_ASCII_SYMBOL: Final = _ranges("21-2F 3A-40 5B-60 7B-7E")
_CHINESE: Final = _ranges("4E00-9FA5")
_JAPANESE: Final = _ranges("3040-309F 30A0-30FF")
# The next two hold spaces other than U+0020, which llama.cpp takes out of them.
_EAST_ASIAN: Final = rf"[{_ranges('4E00-9FA5 800-4E00 AC00-D7FF')}&&[^\s]]+"
_WIDE_SYMBOLS: Final = rf"\s?[{_ranges('21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002')}&&[^\s]]+"
_CASED: Final = _ranges(
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C 38E-3A1 3A3-3F5 "
    "3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 "
    "1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 "
    "1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 "
    "213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 "
    "A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 "
    "118A0-118DF 1E900-1E943"
)


def _modern(digits: str, letters: str = r"\p{L}", contractions: str = _CONTRACTIONS + "|", breaks: str = r"[\r\n]*") -> str:
    """The expression that GPT-4's tokenizer brought; models differ in how many digits go together, and in small ways."""
    return rf"{contractions}[^\r\n\p{{L}}\p{{N}}]?[{letters}]+|{digits}| ?[^\s{letters}\p{{N}}]+{breaks}{_SPACES}"


def _by_case(digits: str, contractions: str = "") -> str:
    """The same with a cut between small and capital letters, as GPT-4o's tokenizer has it."""
    capital, small, start = r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]", r"[^\r\n\p{L}\p{N}]?"
    words = f"{start}{capital}*{small}+{contractions}|{start}{capital}+{small}*{contractions}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{_SPACES}"


_GROUPS: Final = {
    "gpt-2 phi-2 mpt olmo jais trillion granite-docling mellum a.x-4.0 exaone4": PreTokenizer((_GPT2,)),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": PreTokenizer((r"\p{N}", _GPT2)),
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "qwen2 deepseek-r1-qwen megrez kormo f2llmv2 stablelm2": PreTokenizer((_modern(r"\p{N}"),)),
    "qwen35": PreTokenizer((_modern(r"\p{N}", r"\p{L}\p{M}"),)),
    "ufakzeka": PreTokenizer((_modern(r"\p{N}", contractions=""),)),
    "seed-coder": PreTokenizer((_modern(r"\p{N}", breaks=""),)),
    "dbrx smaug-bpe": PreTokenizer((_modern(r"\p{N}{1,3}"),)),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": PreTokenizer((_modern(r"\p{N}{1,3}"),), whole_words=True),
    "minicpm5": PreTokenizer((r"\p{N}{1,3}", _modern(r"\p{N}+")), whole_words=True),
    "tekken": PreTokenizer((_by_case(r"\p{N}"),), whole_words=True),
    "gpt-4o llama4": PreTokenizer((_by_case(r"\p{N}{1,3}", _CONTRACTIONS + "?"),)),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}")),
    "deepseek-llm": PreTokenizer((r"[\r\n]", rf"\s?[{_CASED}]+", _WIDE_SYMBOLS, r"\s+$", _EAST_ASIAN, r"\p{N}+")),
    "deepseek-v3 hunyuan-dense joyai-llm": PreTokenizer(
        (
            r"\p{N}{1,3}",
            f"[{_CHINESE}{_JAPANESE}]+",
            rf"[{_ASCII_SYMBOL}][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*{_SPACES}",
        )
    ),
}


def _dated(expression: str) -> str:
    """The same expression where no category holds anything newer than llama.cpp's table."""
    return re.sub(r"\\p\{\w\}", lambda category: rf"[{category[0]}&&[^{_UNICODE_16}]]", expression)


def _named() -> Iterator[tuple[str, PreTokenizer]]:
    for names, way in _GROUPS.items():
        dated = replace(way, expressions=tuple(map(_dated, way.expressions)))
        for name in names.split():
            yield name, dated


PRE_TOKENIZERS: Final = dict(_named())
"""Every way that is known here, by its name in a file."""
