"""Dates written by people, as the example's data: making texts, turning them into ids, turning answers into ISO dates.

Comes in: a seeded `random.Random`. Goes out: (text, date) pairs, padded int64 ids, ISO strings. Only the standard
library and NumPy, so that `make run` and the training script read and write texts in exactly the same way.

Only formats with one reading are made: "7/12/2019" is left out, "7.12.2019" is day.month.year as everywhere in
Europe, and a two-digit year lies in 1950 to 2049.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]

MAX_LENGTH = 96  # rows of the model's position table
SIZES = [
    (1, 1),
    (1, 9),
    (2, 10),
    (1, 17),
    (3, 23),
    (8, 31),
    (5, 32),
    (16, 40),
    (7, 55),
    (32, 64),
    (4, 77),
    (64, 96),
]  # (batch, length) to try
PAD, UNKNOWN = 0, 1
ALPHABET = " abcdefghijklmnopqrstuvwxyz0123456789äéûç.,-/':;()!"
ID_OF = {character: number for number, character in enumerate(ALPHABET, start=2)}
VOCABULARY = len(ALPHABET) + 2


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

ENGLISH = _words("january february march april may june july august september october november december")
GERMAN = _words("januar februar märz april mai juni juli august september oktober november dezember")
FRENCH = _words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre")
SPANISH = _words("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre")
WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")
WOCHENTAGE = _words("montag dienstag mittwoch donnerstag freitag samstag sonntag")
ORDINALS = _words(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth "
    "twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
)
BEFORE = _phrases(
    "born on|invoice of|meeting:|due|see you|call me back by|signed|the letter of|since|she left on|deadline|"
    "report,|geboren am|rechnung vom|ab dem|fait à lyon le|depuis le|nacido el|madrid,|valid from|last seen|published|"
    "on|until|ok so"
)
AFTER = _phrases(
    "at noon|in the evening|please confirm|(draft)|was a long day|thanks!|at the station|and not later|"
    "; see attachment|in london|um acht|à midi|por la tarde|as agreed|i think|, page one|- final|gmt"
)


def suffixed(day: int) -> str:
    """An English ordinal in digits: 1st, 2nd, 3rd, 11th …"""
    ending = "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _year(rng: random.Random, when: date) -> str:
    """Writes a year, mostly in four digits; as an apostrophe and two where two are enough."""
    if 1950 <= when.year <= 2049 and rng.random() < 0.2:
        return f"'{when.year % 100:02d}"
    return str(when.year)


def _month(rng: random.Random, when: date) -> str:
    """An English month, in full or as its first three letters."""
    name = ENGLISH[when.month - 1]
    return name if rng.random() < 0.5 else name[:3] + rng.choice(["", "."])


def _iso(rng: random.Random, when: date) -> str:
    mark = rng.choice("--/.")
    return f"{when.year}{mark}{when.month:02d}{mark}{when.day:02d}"


def _compact(rng: random.Random, when: date) -> str:
    return f"{when.year}{when.month:02d}{when.day:02d}"


def _dotted(rng: random.Random, when: date) -> str:
    width = rng.choice([1, 2])
    year = str(when.year)
    if 1950 <= when.year <= 2049 and rng.random() < 0.2:
        year = year[2:]
    gap = rng.choice(["", "", " "])
    return f"{when.day:0{width}d}.{gap}{when.month:0{width}d}.{gap}{year}"


def _day_first(rng: random.Random, when: date) -> str:
    day = rng.choice([str(when.day), suffixed(when.day), f"the {suffixed(when.day)} of"])
    return f"{day} {_month(rng, when)}{rng.choice(['', ','])} {_year(rng, when)}"


def _month_first(rng: random.Random, when: date) -> str:
    day = rng.choice([str(when.day), suffixed(when.day)])
    return f"{_month(rng, when)} {day}{rng.choice(['', ','])} {_year(rng, when)}"


def _joined(rng: random.Random, when: date) -> str:
    mark = rng.choice(["-", "/", ""])
    return f"{when.day:02d}{mark}{ENGLISH[when.month - 1][:3]}{mark}{when.year}"


def _weekday(rng: random.Random, when: date) -> str:
    name = WEEKDAYS[when.weekday()]
    name = name if rng.random() < 0.6 else name[:3]
    return f"{name}{rng.choice(['', ','])} {rng.choice([_day_first, _month_first])(rng, when)}"


def _in_words(rng: random.Random, when: date) -> str:
    return f"{rng.choice(['the ', ''])}{ORDINALS[when.day - 1]} of {_month(rng, when)} {_year(rng, when)}"


def _german(rng: random.Random, when: date) -> str:
    name = GERMAN[when.month - 1]
    weekday = f"{WOCHENTAGE[when.weekday()]}, " if rng.random() < 0.3 else ""
    return f"{weekday}{when.day}. {name} {when.year}"


def _french(rng: random.Random, when: date) -> str:
    day = "1er" if when.day == 1 else str(when.day)
    return f"{rng.choice(['le ', ''])}{day} {FRENCH[when.month - 1]} {when.year}"


def _spanish(rng: random.Random, when: date) -> str:
    return f"{rng.choice(['el ', ''])}{when.day} de {SPANISH[when.month - 1]} de {when.year}"


Format = Callable[[random.Random, date], str]
FORMATS: tuple[tuple[Format, int], ...] = (
    (_iso, 3),
    (_compact, 1),
    (_dotted, 3),
    (_day_first, 4),
    (_month_first, 4),
    (_joined, 2),
    (_weekday, 2),
    (_in_words, 2),
    (_german, 2),
    (_french, 2),
    (_spanish, 2),
)


def held_out(when: date) -> bool:
    """One date in ten is never trained on: the model is judged on dates that it has not seen in any format."""
    return when.toordinal() * 7919 % 10 == 3


def draw_date(rng: random.Random, held: bool) -> date:
    """A date of FIRST to LAST from the training dates, or from the held-out ones."""
    while True:
        when = FIRST + timedelta(days=rng.randrange((LAST - FIRST).days + 1))
        if held_out(when) == held:
            return when


def _clock(rng: random.Random) -> str:
    """A time of day: digits that are not part of the date."""
    return f"{rng.choice(['at', 'um', ''])} {rng.randrange(24)}:{rng.randrange(60):02d}".strip()


def _spaced(rng: random.Random, text: str) -> str:
    """Doubles some spaces, as people type them."""
    return "".join(c + " " if c == " " and rng.random() < 0.05 else c for c in text)


def _cased(rng: random.Random, text: str) -> str:
    return rng.choice((text.lower(), text.upper(), text.title(), text))


def write(rng: random.Random, when: date) -> str:
    """One text that says `when`, in a random format among random words, at most MAX_LENGTH characters."""
    kinds, weights = [kind for kind, _ in FORMATS], [weight for _, weight in FORMATS]
    while True:
        parts = [rng.choices(kinds, weights)[0](rng, when)]
        if rng.random() < 0.5:
            parts.insert(0, rng.choice(BEFORE))
        if rng.random() < 0.15:
            parts.append(_clock(rng))
        if rng.random() < 0.35:
            parts.append(rng.choice(AFTER))
        text = " " * rng.choice([0, 0, 0, 1, 2]) + _cased(rng, _spaced(rng, " ".join(parts)))
        if len(text) <= MAX_LENGTH:
            return text


def encode(texts: Sequence[str], length: int | None = None) -> Ids:
    """Ids [batch, length], padded with 0 at the right to `length` or the longest text. Case is folded."""
    width = max(1, *map(len, texts)) if length is None else length
    ids = np.full((len(texts), width), PAD, dtype=np.int64)
    for row, text in enumerate(texts):
        numbers = [ID_OF.get(character, UNKNOWN) for character in text.lower()[:width]]
        ids[row, : len(numbers)] = numbers
    return ids


def targets(dates: Sequence[date]) -> NDArray[np.int64]:
    """[batch, 6]: day - 1, month - 1 and the four digits of the year."""
    return np.array([[d.day - 1, d.month - 1, *map(int, f"{d.year:04d}")] for d in dates], dtype=np.int64)


def decode(day: Logits, month: Logits, year: Logits) -> list[str]:
    """The model's three outputs, [batch, 31], [batch, 12] and [batch, 4, 10], as ISO dates."""
    digits = year.argmax(axis=-1)
    years = ["".join(map(str, row)) for row in digits]
    return [f"{y}-{m + 1:02d}-{d + 1:02d}" for y, m, d in zip(years, month.argmax(axis=-1), day.argmax(axis=-1))]
