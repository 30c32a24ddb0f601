"""Computing from a person's side: what is asked in five languages, with no model, and what must not be taken for it."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.house import House
from support.scripted import plan, say

from metnosd.assemble import make_registry
from metnosd.lexicon.check import problems_of
from metnosd.lexicon.holidays import read_rule
from metnosd.lexicon.lexicon import Lexicon
from metnosd.lexicon.loading import LexiconError, load_lexicon
from metnosd.lexicon.math import read_math
from metnosd.lexicon.math_tokens import read_number
from metnosd.lexicon.signals import read_signals
from metnosd.lexicon.templates import TemplateError
from metnosd.locations import shipped_config
from metnosd.pool import make_pool
from metnosd.sentence import Refusal
from metnosd.units import is_unit

TOOL = "compute_numbers"
CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "everyday_numbers.jsonl").read_text("utf-8").splitlines()
]
BY_LANGUAGE: dict[str, list[dict[str, Any]]] = defaultdict(list)
for _case in CASES:
    BY_LANGUAGE[_case["lang"]].append(_case)

LONGEST_SECONDS = 1.0
"""How long one text may take at most, on a busy machine."""


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    return load_lexicon(shipped_config("lexicon"))


@pytest.mark.parametrize("lang", sorted(BY_LANGUAGE))
async def test_cases(lang: str, house: House) -> None:
    """Each case is answered in its language, those marked fast without the model."""
    wrong = []
    for case in BY_LANGUAGE[lang]:
        answers = [] if case["fast"] else [plan((case["tool"], case["args"]))]
        reply = await house.ask(case["text"], *answers)
        asked, house.model.asked[:] = len(house.model.asked), []
        if case["answer"] not in reply.text or bool(asked) == case["fast"]:
            wrong.append((case["text"], reply.text, asked))
    assert wrong == []


def test_there_are_cases_of_each_language(lexicon: Lexicon) -> None:
    """Ten and more a language, and each says its step, or is left to the model with it in the pool."""
    registry = make_registry()
    for language in lexicon.languages:
        assert len(BY_LANGUAGE[language.code]) >= 10
    for case in CASES:
        signals = read_signals(case["text"], lexicon, case["lang"])
        assert TOOL in make_pool(registry, signals).names, case["text"]
        assert (signals.call is not None) == case["fast"], case["text"]
        if signals.call is not None:
            assert (signals.call.tool, dict(signals.call.args)) == (case["tool"], case["args"])


NEAR_MISSES = """
2026-11-30|2026/11/30|30.11.2026|30/11/2026|12-24-2026|+39 06 1234567|+39061234567|06 1234567|055-123456|555-1234
06 12 34 56 78|01 23 45 67 89|612 345 678|0151 2345678|7:30|10:30 - 11:45|10.30-12.30|16:9|3.11|3.11.2|10-12|10 - 12
9-17|1-2|a-1.txt|report-2.pdf|file 2+3.txt|/home/me/2/3|192.168.1.1|24/7|50/50|9/11|1/2|12/24|yes 2|2|no 1|-5|+5|10%
100 %|#3|3x|x2|4x4|1920x1080|6x9|C++|2^|2 + 2 = 4|1+1=3|2 +|(2)|v2.0|A4|5 km|3 kg|10 €|$5|5 in|180 °C|1e5
https://a.b/2+2|in 10 minutes|in 3 days|3 days ago|10 minutes to 5|10 to 12|5 to 7 miles|from 5 to 7|half|half past 8
double|one|twelve|a third|the first half of 2026|i am 100% sure|50% off|50% off at zara|5 miles is a long walk
how much is a ticket to paris|how many days did the hundred days last|how many days until my birthday|what is 5
what's 9/11|what is 7:30|what is the plus one rule|route 66|page 3 of 10|2 of 3|2 x milk|add 12 and 30|buy 2 + 1 free
3 times|twice a day|half an hour|what day is it|what time is it|how long until dinner is ready|when is the meeting
split the bill|divide the files|minus the tip|how much is the fish|what percent|how many km|the sum of all fears
square|convert the file to pdf|convert 2 files to pdf|move 2 files to docs|10 out of 10|plus|1,23,456 + 1
i have 2 plus 1 dogs|call me in 2 hours|5 + 3 people are coming|"2 + 2"|add 2+2 to my list
remind me to pay 12 * 3 euros|2 eggs + milk|weigh 70 kg|room 3 - 2nd floor|sì 2|tra 10 minuti|tra 3 giorni|7 per 8
3 per 2|2 per 8 persone|dalle 5 alle 7|la metà|un terzo|mezza|1 a 0|2 x pane|sono sicuro al 100%
sconti del 50% da zara|quanto fa male la puntura di una vespa|quanto costa un biglietto per parigi
5 km sono una bella camminata|quanti giorni di ferie ho|quanto manca|che giorno è|quando è la riunione
il 17%|5 più|meno male|più o meno|per 3|quanto è lontana roma|dividi i file|metà delle foto|alla 2
un giorno sì e uno no|oui 2|dans 10 minutes|dans 3 jours|10 sur 10|8 sur 10|à 12h30|2 x pain|75 001 paris|la moitié
le tiers|deux fois par jour|je suis sûr à 100 %|50 % de réduction chez zara|combien coûte un billet pour paris
combien font les places pour le concert|5 km c'est une belle marche|combien de jours de congé
combien de temps|plus ou moins|moins de 3|une fois|quel jour on est|quand est la réunion|combien de photos
la racine du problème|3 fois|au carré|de 5 à 7|ja 2|in 10 minuten|in 3 tagen|am 3.|halb 8|drei viertel 8|zehn vor acht
um 10 nach 8|3 mal|zwei mal|1 zu 0|2 mal am tag|ich bin mir zu 100% sicher|50% rabatt bei zara
was kostet ein ticket nach paris|wie viel ist dir das wert|die hälfte|5 km sind ein schöner spaziergang
wie viele tage urlaub habe ich|wie lange noch|wie viel uhr ist es|wann ist das treffen|hoch 3
durch 2|teile die datei|die wurzel des problems|minus 5 grad|plus minus|mal sehen|bis morgen|sí 2|en 10 minutos
en 3 días|12 por 12|2 por 1|10 entre 3|a la 1|media hora|612 34 56 78|la mitad|de 5 a 7|2 x pan|estoy seguro al 100%
50% de descuento en zara|cuánto cuesta un billete a parís|cuánto es de alquiler el piso|5 km es una buena caminata
cuántos días de vacaciones tengo|cuánto falta|qué día es hoy|cuándo es la reunión|más o menos|menos mal
por 3|entre 5 y 7|dos veces al día|la raíz del problema|una vez|más de 3|divide los archivos
the day before christmas|day before yesterday|the week before easter|giorno di natale|la settimana di pasqua
il giorno prima di natale|le jour avant noël|jour de noël|la semaine de pâques|der tag vor weihnachten|woche vor ostern
el día de navidad|la semana antes de pascua|christmas|natale|noël|weihnachten|navidad|next christmas|friday to monday
from monday to friday|dal 5 al 10 maggio|du 5 au 10 mai|vom 5. bis 10. mai|del 5 al 10 de mayo|year to date
"""


@pytest.mark.parametrize("lang", [None, "en", "it", "fr", "de", "es"])
def test_near_misses(lang: str | None, lexicon: Lexicon) -> None:
    """Dates, ranges, telephone numbers, versions, names, scores and talk are no expressions in any language."""
    texts = [text for line in NEAR_MISSES.strip().splitlines() for text in line.split("|")]
    assert len(texts) > 200
    taken = []
    for text in texts:
        for said in (text, f"{text.capitalize()}?"):
            call = read_signals(said, lexicon, lang).call
            if call is not None and call.tool == TOOL:
                taken.append((said, call.args))
    assert taken == []


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("0.17*240", "0.17 × 240 = 40.8"),  # noqa: RUF001
        ("sqrt(144)", "= 12"),
        ("144**0.5", "= 12"),
        ('"12 * 12"', "= 144"),
        ("(1 + 2) / 3 =", "= 1"),
        ("100 - 25%", "= 75"),
        ("5 mile -> kilometer", "8.04672 km"),
        ("5 mi to km", "8.04672 km"),
        ("180 degC in degF", "356 °F"),
        ("10 - 12", "= -2"),
        ("bananas", "I do not understand “bananas”"),
        ("(((((((((((((((", "not understand"),
        ("__import__('os').system('id')", "not understand"),
        ("9^9^9^9", "too large"),
        ("10**100000", "too large"),
        ("1/0", "divided by zero"),
        ("2 l in kg", "do not measure the same"),
        ("100 euros in dollars", "exchange rates"),
        ("1+" * 120 + "1", "too long"),
        ("days until my birthday", "which day “my birthday” is"),
        ("days until 30 February 2027", "which day “30 february 2027” is"),
        ("days until 1 May 2020", "That day is past: Fri 2020-05-01"),
        ("days since 1 May 2030", "still to come: Wed 2030-05-01"),
        ("days until 18 November", "the same day"),
        ("months until 25 December 2027", "13 months and 7 days"),
        ("years since 1 May 2020", "6 years and 6 months and 17 days"),
        ("days between 20 December and 5 January", "16 days"),
        ("days between 5 May 2026 and 1 May 2026", "4 days"),
        ("weeks until 2 December", "2 weeks."),
    ],
)
async def test_what_the_model_writes(expression: str, answer: str, house: House) -> None:
    """The user's words and plain notation are both understood, and what is not gets a sentence that says so."""
    reply = await house.ask("please calculate that for me", plan((TOOL, {"expression": expression})))
    assert answer in reply.text


async def test_result_is_data(house: House) -> None:
    """The entry holds the value with a decimal point and the expression as it was read."""
    reply = await house.ask("quanto fa 240 più 22%", say(""))
    entry = reply.outcome["steps"][0]["entries"][0]
    assert (entry["value"], entry["expression"], entry["exact"]) == ("292.8", "240 + 22%", True)
    assert reply.text == "240 + 22% = 292,8" and reply.undo is None


async def test_answer_and_reading_keep_their_languages(tmp_path: Path) -> None:
    """Numbers are read as the words around them are, and written as the user's language does."""
    house = House(tmp_path, settings={"user": {"lang": "it"}})
    assert (await house.ask("how much is 1,234 times 2")).text == "1234 × 2 = 2468"  # noqa: RUF001
    assert (await house.ask("1,234 * 2")).text == "1,234 × 2 = 2,468"  # noqa: RUF001
    assert (await house.ask("1.5 * 3")).text == "1,5 × 3 = 4,5"  # noqa: RUF001
    await house.close()


async def test_days_are_those_of_the_users_zone(tmp_path: Path) -> None:
    """Close to midnight, today is the user's day and not that of the daemon's clock."""
    house = House(tmp_path, settings={"user": {"zone": "Pacific/Auckland"}})
    assert "From Thu 2026-11-19 to Fri 2026-12-25: 36 days." in (await house.ask("days until Christmas")).text
    await house.close()


@pytest.mark.parametrize(
    ("text", "lang", "wanted"),
    [
        ("1,234.56", "en", "1234.56"),
        ("1.234,56", "en", "1234.56"),
        ("1,234", "en", "1234"),
        ("1.234", "en", "1.234"),
        ("17,5", "en", "17.5"),
        ("1,234,567", "en", "1234567"),
        ("1,23,456", "en", None),
        ("0,5", "en", "0.5"),
        ("0,125", "en", "0.125"),
        ("06", "en", None),
        ("0", "en", "0"),
        (".5", "en", "0.5"),
        ("1.2.3", "en", None),
        ("1.234,56", "de", "1234.56"),
        ("1,234.56", "de", "1234.56"),
        ("1.234", "de", "1234"),
        ("1,234", "de", "1.234"),
        ("17.5", "de", "17.5"),
        ("1.234.567", "de", "1234567"),
        ("1.234.56", "de", None),
        ("1 234,5", "fr", "1234.5"),
        ("1'234.50", "fr", "1234.50"),
        ("1'23", "fr", None),
    ],
)
def test_numbers_with_marks(text: str, lang: str, wanted: str | None, lexicon: Lexicon) -> None:
    """Marks inside numbers mean what they mean in the language, and where they cannot, the only other thing."""
    assert read_number(text, lexicon.language(lang).math) == wanted


@pytest.mark.parametrize(
    ("text", "lang", "wanted"),
    [
        ("two hundred and six plus one", "en", "206 + 1"),
        ("twenty-six times two thousand", "en", "26 * 2000"),
        ("2.5 million / 4", "en", "2500000 / 4"),
        ("a hundred minus one", "en", "100 - 1"),
        ("duecentosei più trentatré", "it", "206 + 33"),
        ("tremilacinquecento meno mille", "it", "3500 - 1000"),
        ("quatre-vingt-dix-huit plus soixante et onze", "fr", "98 + 71"),
        ("deux cents plus mille trois", "fr", "200 + 1003"),
        ("zweihundertfünfzig minus sechsunddreißig", "de", "250 - 36"),
        ("tausendzweihundert plus eins", "de", "1200 + 1"),
        ("doscientos treinta y seis más mil", "es", "236 + 1000"),
    ],
)
def test_numbers_in_words(text: str, lang: str, wanted: str, lexicon: Lexicon) -> None:
    """Numbers in words are put together as each language does."""
    found = read_math(text, [lexicon.language(lang)])
    assert found is not None and found[0].text.replace("×", "*") == wanted  # type: ignore[union-attr]  # noqa: RUF001


@pytest.mark.parametrize(
    ("rule", "year", "wanted"),
    [
        ("12-25", 2026, date(2026, 12, 25)),
        ("easter", 2027, date(2027, 3, 28)),
        ("easter-2", 2027, date(2027, 3, 26)),
        ("easter+49", 2027, date(2027, 5, 16)),
        ("11/4#4", 2026, date(2026, 11, 26)),
        ("11/4#4+1", 2026, date(2026, 11, 27)),
        ("05/7#2", 2026, date(2026, 5, 10)),
        ("05/7#-1", 2026, date(2026, 5, 31)),
        ("12/1#-1", 2026, date(2026, 12, 28)),
    ],
)
def test_holidays(rule: str, year: int, wanted: date) -> None:
    """A rule gives the day of each year."""
    assert read_rule(rule).on(year) == wanted


@pytest.mark.parametrize("rule", ["", "25-12", "02-30", "easter 2", "13/1#1", "05/8#1", "christmas"])
def test_what_is_no_rule(rule: str) -> None:
    """A rule that is none is an error when the lexicon is read."""
    with pytest.raises(TemplateError):
        read_rule(rule)


def test_next_and_latest_holiday() -> None:
    """Today counts as the next and as the latest such day."""
    christmas = read_rule("12-25")
    assert christmas.near(date(2026, 12, 25)) == date(2026, 12, 25)
    assert christmas.near(date(2026, 12, 26)) == date(2027, 12, 25)
    assert christmas.near(date(2026, 12, 24), past=True) == date(2025, 12, 25)


def test_every_unit_is_one(lexicon: Lexicon) -> None:
    """Each unit of each lexicon is known to pint, and each language has a shown word for all of the reference's."""
    reference = set(lexicon.languages[0].math.symbols)
    for language in lexicon.languages:
        assert [unit for unit in language.math.symbols if not is_unit(unit)] == []
        assert reference <= set(language.math.symbols)


def test_a_language_that_lacks_words_is_reported(tmp_path: Path) -> None:
    """Keys of `[math]` that a language lacks are named, its own holidays and numbers are its own."""
    text = (shipped_config("lexicon") / "de.toml").read_text("utf-8")
    text = text.replace('"^2" = ["zum quadrat"', '"^2x" = ["zum quadrat"').replace(
        "[math.ask]\n", "[math.ask]\nx = []\n"
    )
    (tmp_path / "de.toml").write_text(text.replace('"^2x" = ["zum quadrat", "im quadrat", "quadriert"]\n', ""))
    problems = problems_of(load_lexicon(shipped_config("lexicon"), tmp_path))
    assert "de: math.operators.^2 is missing." in problems


@pytest.mark.parametrize(
    "line", ['[math.holidays]\n"13-45" = ["x"]', '[math.tips]\nx = ["y"]', '[math.shapes]\nconvert = ["{nothing}"]']
)
def test_a_mistake_in_the_words_is_named(line: str, tmp_path: Path) -> None:
    """A rule, section or template that is none is an error that names the file."""
    head = '[language]\ncode = "pt"\nname = "P"\naccents_optional = true\ncommon = []\n'
    (tmp_path / "pt.toml").write_text(head + line)
    with pytest.raises(LexiconError) as caught:
        load_lexicon(shipped_config("lexicon"), tmp_path)
    assert "pt.toml" in str(caught.value)


SAID = (
    "2|12|1.234,5|240|plus|times|per|of|di|de|%|percent|(|)|-|/|^|half|km|miles|in|to|how much is|quanto fa|days|until"
    "|christmas|between|and|e|split|people|square root of|the|twenty|hundred|x|:|=|€|dollars|what percent of|is|,"
)
WORDS = st.sampled_from(SAID.split("|"))
TEXTS = st.one_of(
    st.text(max_size=250), st.lists(WORDS, max_size=40).map(" ".join), st.lists(WORDS, max_size=40).map("".join)
)


@given(TEXTS)
@settings(deadline=None, max_examples=120)
def test_any_text_is_read_or_not(text: str) -> None:
    """Whatever a text says, it is read, refused or not understood, and soon."""
    lexicon = shipped()
    started = time.monotonic()
    read_signals(text, lexicon, None)
    try:
        read_math(text, lexicon.languages)
    except Refusal:
        pass
    assert time.monotonic() - started < LONGEST_SECONDS


_SHIPPED: list[Lexicon] = []


def shipped() -> Lexicon:
    """The shipped lexicon, read once: Hypothesis takes no fixture that is narrower than the module."""
    if not _SHIPPED:
        _SHIPPED.append(load_lexicon(shipped_config("lexicon")))
        _SHIPPED[0].warm()
    return _SHIPPED[0]


@given(st.integers(0, 10**6), st.integers(1, 999), st.sampled_from(["en", "it", "fr", "de", "es"]))
@settings(deadline=None, max_examples=60)
def test_words_say_the_same_sum_in_each_language(a: int, b: int, code: str) -> None:
    """Any two numbers, added in words, are the same sum in each language."""
    language = shipped().language(code)
    plus = next(phrase for phrase, word in language.math.phrases.items() if word.value == "+")
    found = read_math(f"{a} {plus} {b}", [language])
    assert found is not None
    assert Fraction(a + b) == sum(part.number for part in found[0].tree.args)  # type: ignore[union-attr]
