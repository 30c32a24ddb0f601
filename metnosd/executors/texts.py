"""Working on texts with the model: summaries, translations, answers, and what is picked out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from metnosd.arguments import Arg
from metnosd.entries import Entry, printable
from metnosd.executor import Found, Run, executor
from metnosd.executors.targets import told
from metnosd.lexicon.detect import known_words, languages_for, words_of
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.masks import FILE
from metnosd.lexicon.templates import holds
from metnosd.sentence import Question, Refusal, Sentence, say
from metnosd.writer import Desk, Length, Writer, Written

SAMPLE = 4000
"""How many characters of a text tell its language."""

KNOWN_SHARE = 0.25
"""The share of words that a lexicon must know to say that a text is in its language."""


@executor(takes=(None, "texts", "notes"), gives="texts", capability="model:use")
def summarize_texts(
    run: Run,
    *,
    length: Annotated[Length, Arg("how long")] = "short",
    text: Annotated[str | None, Arg("text in the message", "words")] = None,
) -> Found:
    """Summarize texts."""
    entries = _material(run, text)
    desk = _desk(run)
    if desk is None:
        return _unwritten()
    # What came from files is summarised file by file; other texts, such as messages, belong together.
    groups = [[entry] for entry in entries] if all("path" in entry.fields for entry in entries) else [entries]
    sources = [_joined(group) for group in groups]
    written = desk.summarize(sources, length, [_language_of(run, source) for source in sources])
    return _found(groups, written)


@executor(takes=(None, "texts", "notes"), gives="texts", capability="model:use")
def translate_texts(
    run: Run,
    *,
    to_lang: Annotated[str, Arg("language to translate into", "words")],
    text: Annotated[str | None, Arg("text in the message", "words")] = None,
) -> Found:
    """Translate texts into another language."""
    language = _language(run, to_lang)
    entries = _material(run, text)
    desk = _desk(run)
    if desk is None:
        return _unwritten()
    groups = [[entry] for entry in entries]
    return _found(groups, desk.translate([_joined(group) for group in groups], language))


@executor(takes=(None, "texts", "notes"), gives="texts", capability="model:use")
def answer_texts(run: Run, *, question: Annotated[str, Arg("the question", "words")]) -> Found:
    """Answer a question from what texts say."""
    entries = _material(run, None)
    desk = _desk(run)
    if desk is None:
        return _unwritten()
    written = desk.answer(_joined(entries), question, _english(run, run.lang))
    return _found([entries], [written], partly="texts.best")


@executor(takes=(None, "texts", "notes"), gives="texts", capability="model:use")
def extract_texts(run: Run, *, what: Annotated[str, Arg("what to pick out, such as the dates", "words")]) -> Found:
    """Pick something out of texts, such as all addresses or dates."""
    entries = _material(run, None)
    desk = _desk(run)
    if desk is None:
        return _unwritten()
    source = _joined(entries)
    written = desk.extract(source, what, _language_of(run, source))
    kept, invented = _said(written.text, source)
    problems = _problems([entries], [written], "texts.part")
    if invented:
        problems.append(say("texts.invented", count=invented))
    if not kept:
        return Found(problems=told(problems), note=say("texts.none_found"))
    return Found((Entry("texts", {"text": "\n".join(kept)}),), told(problems))


TEXT_EXECUTORS = (summarize_texts, translate_texts, answer_texts, extract_texts)
"""In the order in which they are listed and described to the model."""


def _desk(run: Run) -> Desk | None:
    """The writer for this step; None where a plan is only looked at, so that nothing is written."""
    writer: Writer = run.facts["writer"]
    beside = run.facts["context"].beside
    return Desk(writer, beside) if beside is not None else None


def _unwritten() -> Found:
    """What stands for a result that is not there yet, where a plan is only looked at."""
    return Found((Entry("texts", {"text": ""}),))


def _material(run: Run, text: str | None) -> list[Entry]:
    """The texts to work on: those of the step before, else `text`, else those of the last answer.

    Raises Question where there are none, Refusal where they are empty.
    """
    before = list(_with_text(run.entries))
    if not before and text is not None and FILE.fullmatch(text.strip()):
        raise Question("texts.file", name=text.strip())
    if not before and text is not None and not _points_back(run, text):
        before = [Entry("texts", {"text": text})]
    if not before and not run.has_input:
        before = list(_with_text(run.facts["context"].last))
    if not before:
        raise Refusal("texts.empty") if run.entries else Question("texts.what")
    filled = [entry for entry in before if str(entry.fields["text"]).strip()]
    if not filled:
        raise Refusal("texts.empty")
    return filled


def _with_text(entries: tuple[Entry, ...]) -> Iterator[Entry]:
    return (entry for entry in entries if isinstance(entry.fields.get("text"), str))


def _points_back(run: Run, text: str) -> bool:
    """Whether `text` is a word for what was found before ("it")."""
    language = run.facts["lexicon"].language(run.lang)
    folded = language.fold(text.strip())
    words = (*language.signals_within.get("back", ()), *language.pointing.get("all", ()))
    return any(template.full(folded) is not None for template in words)


def _joined(entries: list[Entry]) -> str:
    return "\n\n".join(str(entry.fields["text"]) for entry in entries)


def _found(groups: list[list[Entry]], written: list[Written], partly: str = "texts.part") -> Found:
    """The texts that were written, each under the name of its file where there are several."""
    problems = _problems(groups, written, partly)
    if len(written) < len(groups):
        problems.append(say("texts.left_out", count=len(groups) - len(written)))
    entries = []
    for group, one in zip(groups, written, strict=False):
        name = group[0].fields.get("name") if len(group) == 1 else None
        text = one.text
        if name is not None and len(groups) > 1:
            text = f"{printable(str(name))}:\n{text}"
        if one.text:
            entries.append(Entry("texts", {"text": text} | ({"name": name} if name is not None else {})))
    if not entries:
        raise Refusal("texts.no_answer")
    return Found(tuple(entries), told(problems))


def _problems(groups: list[list[Entry]], written: list[Written], partly: str) -> list[Sentence]:
    """What the texts that were written lack of their sources."""
    problems = [say(partly, read=one.read, total=one.total) for one in written if one.read < one.total]
    used = [entry for group in groups[: len(written)] for entry in group]
    if any(entry.fields.get("truncated") for entry in used):
        problems.append(say("texts.file_cut"))
    if any(one.cut for one in written):
        problems.append(say("texts.cut"))
    return problems


def _said(found: str, source: str) -> tuple[list[str], int]:
    """The finds that may stand in `source`, and how many were left out: those with a number or an address that
    it does not hold, which a model makes up more easily than it copies them wrong."""
    plain = source.casefold()
    kept, invented = [], 0
    for line in found.splitlines():
        firm = re.findall(r"[^\s,;:()<>\[\]]*[@\d][^\s,;:()<>\[\]]*", line.casefold())
        if all(word.rstrip(".!?") in plain for word in firm):
            kept.append(line)
        else:
            invented += 1
    return kept, invented


def _language(run: Run, said: str) -> str:
    """The English name of the language that `said` means, in any language or as a code, else the only one that
    the message names. Raises Question where there is none."""
    lexicon: Lexicon = run.facts["lexicon"]
    message = run.facts["context"].text
    own = lexicon.language(run.lang)
    code = _code(lexicon, said)
    # "it" is a code, and more often a word.
    word = own.fold(said.strip())
    if code is None or (word == code and word in own.common and holds(own.fold(message), word)):
        named = {
            code
            for language in lexicon.languages
            for name, code in language.values.get("language_name", {}).items()
            if holds(language.fold(message), name)
        }
        code = named.pop() if len(named) == 1 else None
    if code is None:
        raise Question("texts.which_language", name=said)
    return _english(run, code)


def _code(lexicon: Lexicon, said: str) -> str | None:
    """The code of the language that `said` names or is ("Italian", "italiano", "it", "it-CH")."""
    for language in lexicon.languages:
        code = language.values.get("language_name", {}).get(language.fold(said.strip()))
        if code is not None:
            return code
    known = set(lexicon.languages[0].values.get("language_name", {}).values())
    short = said.strip().casefold().replace("_", "-").partition("-")[0]
    return short if short in known else None


def _english(run: Run, code: str) -> str:
    """The name of a language for the writer's prompt; its code where the reference language has none."""
    lexicon: Lexicon = run.facts["lexicon"]
    names = lexicon.languages[0].values.get("language_name", {})
    return next((name.title() for name, key in names.items() if key == code), code)


def _language_of(run: Run, text: str) -> str:
    """The language of `text` for the writer's prompt: its English name where it is surely one of the lexicon's."""
    lexicon: Lexicon = run.facts["lexicon"]
    writer: Writer = run.facts["writer"]
    sample = text[:SAMPLE]
    words = words_of(sample)
    first, second, *_ = languages_for(sample, lexicon, None)
    known, other = known_words(sample, first), known_words(sample, second)
    if known < KNOWN_SHARE * len(words) or known < 1.3 * other:
        return writer.texts.same_language
    return _english(run, first.code)
