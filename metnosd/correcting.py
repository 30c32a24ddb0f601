"""A message that puts the one before right: "no, to Backup" after "move the PDFs to Archive"."""

from __future__ import annotations

from collections.abc import Sequence

from metnosd.kinds import Kinds
from metnosd.lexicon.lexicon import Language, Lexicon
from metnosd.lexicon.signals import Signals
from metnosd.lexicon.spans import Spans, places_of, read_spans
from metnosd.lexicon.templates import fold, one_of

_SOURCES = (("time",), ("size",), ("kind", "category"), ("path",), ("number",))
"""What a correction may change, each alternatives of one thing, in the order in which they are looked for."""

LONGEST = 120
"""A longer message is a request of its own, in characters."""

_EDGES = " \t\n.!?,;:\u00bf\u00a1\u2026"


def corrected(text: str, signals: Signals, earlier: str, lexicon: Lexicon, kinds: Kinds) -> str | None:
    """The request `earlier` with what `text` says in its place; None where `text` surely corrects nothing in it."""
    if signals.signal is not None or signals.call is not None or len(text) > LONGEST:
        return None
    language = lexicon.language(signals.lang)
    said = _said(text, language)
    if said is None:
        return None
    mine, theirs = (read_spans(part, lexicon, kinds, signals.lang) for part in (said, earlier))
    for sources in _SOURCES:
        values = [value for source in sources for value in mine[source]]
        if not values:
            continue
        place = _place(sources, mine, said)
        if len(values) > 1 or place is None:
            return None
        target = _meant(sources, theirs, earlier, said[: place[0]], language)
        if target is None:
            return None
        return earlier[: target[0]] + said[place[0] : place[1]] + earlier[target[1] :]
    return None


def _said(text: str, language: Language) -> str | None:
    """What `text` puts in place of something, if it is a correction."""
    stripped = text.strip(_EDGES)
    folded = language.fold(stripped)
    for template in language.corrections:
        values = template.full(folded)
        rest = one_of(values, "rest") if values is not None else None
        if rest:
            at = folded.rfind(rest)
            return stripped[at : at + len(rest)]
    return None


def _place(sources: Sequence[str], spans: Spans, text: str) -> tuple[int, int] | None:
    """The one place in `text` of the values of `sources`."""
    found = {place for source in sources for place in places_of(text, {source: spans[source]}).get(source, [])}
    return next(iter(found)) if len(found) == 1 else None


def _meant(sources: Sequence[str], spans: Spans, text: str, before: str, language: Language) -> tuple[int, int] | None:
    """Where in `text` stands what is put right: behind the same word as in the correction, or the only such thing."""
    places = sorted({place for source in sources for place in places_of(text, {source: spans[source]}).get(source, [])})
    lead = _last_lead(before, language)
    if lead is not None:
        behind = [place for place in places if _last_lead(text[: place[0]], language) == lead]
        if len(behind) == 1:
            return behind[0]
    return places[0] if len(places) == 1 else None


def _last_lead(before: str, language: Language) -> str | None:
    """The word that leads to a place, at the end of `before`; articles between are passed over."""
    leads = {fold(word) for word in language.spans["before_path"]}
    skipped = language.spans["skip"] | language.spans["folder"]
    for word in reversed(fold(before).split()):
        if word in leads:
            return word
        if word not in skipped:
            return None
    return None
