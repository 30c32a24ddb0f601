"""What a message holds that an argument may be: times, sizes, numbers, kinds, names, paths, URLs, its words.

The grounded grammar offers these and nothing else; the validator holds every service to the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from metnosd.kinds import Kinds
from metnosd.lexicon.detect import languages_for
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.masks import FILE, FOLDERS, HIDDEN, QUOTED, URL, hide, quoted_in
from metnosd.lexicon.templates import fold, holds
from metnosd.lexicon.when import time_places

Spans = Mapping[str, tuple[str, ...]]

_SIZE = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)?)\s*([kmgt])(i?)[bo]?(?:ytes?|ctets?)?(?!\w)", re.IGNORECASE)
_BYTES = re.compile(r"(\d+)\s*(?:b|bytes?|o|octets?)?", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:[.,]\d+)?(?![\w/-])")
_WORD = re.compile(r"[^\s\ufffc]+")
_TRIM = ".,;:!?\u00bf\u00a1()[]\u2026"


def read_spans(text: str, lexicon: Lexicon, kinds: Kinds, lang: str | None = None) -> Spans:
    """Source → the values of it in `text`, in order, each once. `words` are all words as written.

    `lang` is the message's language where it is known.
    `number` holds numbers in digits, also when said in words; `kind` extensions, `category` the kinds of
    `config/kinds.toml`; `path` and `name` what can be a folder, file or other name.
    """
    languages = languages_for(text, lexicon, lang)
    quoted = quoted_in(text)
    urls = [found[0] for found in URL.finditer(text)]
    unquoted = hide(text, QUOTED, URL)
    files = [found[0] for pattern in (FILE, FOLDERS) for found in pattern.finditer(unquoted)]
    plain = hide(unquoted, FILE, FOLDERS)
    sizes = [found[0] for found in _SIZE.finditer(plain)]
    places = list(time_places(text, languages))
    times = [text[start:end] for start, end in places]
    bare = hide(plain, _SIZE)
    for start, end in places:
        bare = bare[:start] + HIDDEN * (end - start) + bare[end:]
    shallow = list(_phrases(bare, lexicon, "shallow"))
    bare = _mask_folded(bare, shallow)
    numbers = list(_numbers(bare, lexicon))
    if not numbers and any(_asks_for_one(bare, language) for language in lexicon.languages):
        numbers.append("1")
    found_kinds = list(_kinds(plain, lexicon, kinds))
    names, placed = _named(bare, languages)
    names = [name for name in names if name in placed or name.lower().removesuffix("s") not in found_kinds]
    files = _with_folder(files, placed, unquoted, languages[0])
    return {
        "quoted": _once(quoted),
        "url": _once(urls),
        "path": _once([*quoted, *files, *names]),
        "name": _once([*quoted, *files, *names]),
        "kind": _once(found_kinds),
        "category": _once(
            _by_word(
                _without_words(bare, placed),
                [language.categories for language in lexicon.languages],
            )
        ),
        "shallow": _once(shallow),
        "empty": _once(_phrases(bare, lexicon, "empty")),
        "size": _once(size.replace(" ", "") for size in sizes),
        "number": _once(numbers),
        "time": _once(times),
        "words": tuple(text.split()),
    }


def places_of(text: str, spans: Spans) -> dict[str, list[tuple[int, int]]]:
    """Source → where its values stand in `text`, in code points; a value that is only meant has no place.

    "10 MB" is the size 10MB, with a place; "five" is the number 5, without.
    """
    folded = fold(text)
    found: dict[str, list[tuple[int, int]]] = {}
    for source, values in spans.items():
        if source == "words":
            continue
        for value in values:
            pattern = r"\s*".join(re.escape(part) for part in (fold(value) if source == "size" else [fold(value)]))
            match = re.search(rf"(?<!\w){pattern}(?!\w)", folded)
            if match:
                found.setdefault(source, []).append(match.span())
    return found


def read_size(text: str) -> int | None:
    """The bytes that all of `text` names: "10MB" is 10^7 (SI), "10MiB" 10 * 2^20, a bare number bytes."""
    plain = _BYTES.fullmatch(text.strip())
    if plain:
        return int(plain[1])
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = "kmgt".index(found[2].lower()) + 1
    try:
        return int(Decimal(found[1].replace(",", ".")) * (1024 if found[3] else 1000) ** power)
    except InvalidOperation:
        return None


def _named(text: str, languages: Sequence[Language]) -> tuple[list[str], list[str]]:
    """Words that are written or placed like names or folders, in order; and those placed like folders."""
    names: list[str] = []
    placed: list[str] = []
    # A mark after a word separates it from the next; it stands as an empty word of its own.
    elided = languages[0].spans["elided"]
    words = [part for found in _WORD.finditer(text) for part in _with_mark(_without_article(found[0], elided))]
    folded = [fold(word) for word in words]
    for at, word in enumerate(words):
        if len(word) < 2 and not word.isdigit():
            continue
        # Where every noun has a capital, one is no sign of a name.
        capital = (
            at > 0
            and word[0].isupper()
            and (not languages[0].capital_nouns or folded[at] not in languages[0].known_words)
        )
        # Short words mean other things elsewhere: only the message's own language places names.
        own = languages[0]
        if _follows(folded, at, own, "before_name"):
            names.append(_run(words, at))
        elif _beside_folder(folded, at, own) or _is_folder(folded, at, words, languages):
            names.append(word)
            placed.append(word)
        elif (
            _follows(folded, at, own, "before_path")
            and not _is_skipped(folded[at], own)
            and folded[at] not in own.spans["before_path"]
        ):
            names.append(_run(words, at))
            placed.append(names[-1])
        elif capital:
            names.append(_run(words, at))
    return names, placed


def _without_article(word: str, elided: Iterable[str]) -> str:
    """`word` without an article that is written together with it ("l'Archive")."""
    folded = fold(word)
    return next((word[len(start) :] for start in elided if folded.startswith(start) and len(word) > len(start)), word)


def _with_mark(word: str) -> list[str]:
    core = word.strip(_TRIM)
    return [core, ""] if core and word.rstrip(_TRIM) != word else [core]


def _follows(folded: list[str], at: int, language: Language, key: str) -> bool:
    """Whether one of the words `key` stands before the word, with only words to pass over between."""
    before = at - 1
    while before >= 0 and _is_skipped(folded[before], language):
        before -= 1
    return before >= 0 and folded[before] in language.spans[key]


def _is_skipped(word: str, language: Language) -> bool:
    return word in language.spans["skip"] or word in language.spans["folder"]


def _is_folder(folded: list[str], at: int, words: list[str], languages: Sequence[Language]) -> bool:
    """Whether the word names a usual folder; one that names a kind of files too ("photos") must be placed so."""
    word = folded[at]
    if not any(word in language.folders for language in languages):
        return False
    if not any(word in language.categories for language in languages):
        return True
    capital = at > 0 and words[at][0].isupper() and not languages[0].capital_nouns
    return capital or _follows(folded, at, languages[0], "before_path")


def _beside_folder(folded: list[str], at: int, language: Language) -> bool:
    leading = language.spans["before_path"] | language.spans["before_name"]
    if _is_skipped(folded[at], language) or folded[at] in leading:
        return False
    following = folded[at + 1] if at + 1 < len(folded) else ""
    return following in language.spans["folder"] or (at > 0 and folded[at - 1] in language.spans["folder"])


def _run(words: list[str], at: int) -> str:
    """The word and the capitalised words right after it."""
    end = at + 1
    while end < len(words) and words[at][0].isupper() and words[end] and words[end][0].isupper():
        end += 1
    return " ".join(words[at:end])


def _kinds(text: str, lexicon: Lexicon, kinds: Kinds) -> Iterator[str]:
    """The extensions that `text` names: as such ("PDFs", ".txt", "jpg") or in the lexicon's words."""
    known = {extension for group in kinds.kinds.values() for extension in group} | set(kinds.same)
    plain_words = {word for language in lexicon.languages for word in language.spans["plain_words"]}
    for found in re.finditer(r"(?<![\w.])(\.?)(\w{2,8})(?!\w)", text):
        word = found[2].lower()
        for extension in (word, word.removesuffix("s"), word.removesuffix("'s")):
            if found[1] or (extension in known and extension not in plain_words):
                yield extension
                break
    yield from _by_word(text, [language.kinds for language in lexicon.languages])


def _by_word(text: str, tables: Iterable[Mapping[str, str]]) -> Iterator[str]:
    folded = fold(text)
    for table in tables:
        for word, key in table.items():
            if holds(folded, word):
                yield key


def _phrases(text: str, lexicon: Lexicon, name: str) -> Iterator[str]:
    """The phrases of the list `name` of `[spans]` that `text` holds."""
    folded = fold(text)
    for language in lexicon.languages:
        yield from (phrase for phrase in sorted(language.spans[name]) if holds(folded, phrase))


def _with_folder(files: list[str], placed: list[str], text: str, language: Language) -> list[str]:
    """`files`, those that are said to be inside a folder with it: "notes.txt in Documents"."""
    joined = []
    for name in files:
        rest = text[text.find(name) + len(name) :]
        words = [word.strip(_TRIM) for word in rest.split()[:4]]
        inside = bool(words) and language.fold(words[0]) in language.spans["inside"]
        named = [word for word in words[1:] if not _is_skipped(language.fold(word), language)]
        folder = next((folder for folder in placed if named and folder.split()[0] == named[0]), None)
        joined.append(f"{folder}/{name}" if inside and folder and "/" not in name else name)
    return joined


def _without_words(text: str, words: Iterable[str]) -> str:
    for word in words:
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", HIDDEN * len(word), text)
    return text


def _numbers(text: str, lexicon: Lexicon) -> Iterator[str]:
    for found in re.finditer(r"[\w.,]+", text):
        word = found[0].rstrip(".,")
        if _NUMBER.fullmatch(word):
            yield word.replace(",", ".")
            continue
        for language in lexicon.languages:
            own = language.fold(word)
            value = language.values.get("number", {}).get(own)
            if value is not None and own not in language.spans["skip"]:
                yield value


def _asks_for_one(text: str, language: Language) -> bool:
    """Whether one thing is asked for without its number ("the biggest file")."""
    folded = language.fold(text)
    return any(template.search(folded) for template in language.numbers.get("one", ()))


def _mask_folded(text: str, phrases: Iterable[str]) -> str:
    """`text` with each folded phrase masked where it stands in the folded text, which has the same places."""
    folded = fold(text)
    for phrase in phrases:
        at = folded.find(phrase)
        if at >= 0:
            text = text[:at] + HIDDEN * len(phrase) + text[at + len(phrase) :]
    return text


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
