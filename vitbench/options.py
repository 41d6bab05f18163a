"""Options of a component: what may be chosen of it beside its name, and how that stands behind the name."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from vitbench.wording import nearest

Value = bool | int | float | str  # Value that an option may be set to


@dataclass(frozen=True)
class Option:
    """One option of a component: its default and its range or words."""

    default: Value  # where nothing else is given; its type is the option's
    least: float = -math.inf  # of a number
    most: float = math.inf  # of a number
    words: tuple[str, ...] = ()  # that may be given; empty of a number or a switch

    @classmethod
    def of(cls, literal: object) -> "Option":
        """An option of a fact: true or false, (default, least, most) of a number, or words, the default first."""
        match literal:
            case bool():
                return cls(literal)
            case (int() | float() as default, int() | float() as least, int() | float() as most) if (
                least <= default <= most
            ):
                return cls(default, least, most)
            case (str(), *_) if all(isinstance(word, str) for word in literal):
                words = tuple(map(str, literal))
                return cls(words[0], words=words)
        raise ValueError(f"{literal!r} is no option: give (default, least, most), words, or true or false")

    @property
    def others(self) -> list[Value]:
        """Values that it may have beside its default: a number's ends."""
        if isinstance(self.default, bool):
            return [not self.default]
        return [each for each in self.words or (self.least, self.most) if each != self.default]

    @property
    def allowed(self) -> str:
        """The default, then the range or the other words, as text."""
        if isinstance(self.default, bool):
            return f"{format_number(self.default)} or {format_number(not self.default)}"
        return " or ".join(self.words) or f"{self.default:g}, from {self.least:g} to {self.most:g}"

    def checked(self, given: object) -> Value:
        """The value, a number in the option's own type. Raises ValueError, with what is allowed."""
        if isinstance(self.default, bool):
            if isinstance(given, bool):
                return given
            raise ValueError(f"must be true or false, got {given}")
        if self.words:
            if isinstance(given, str) and given in self.words:
                return given
            raise ValueError(f"must be {' or '.join(self.words)}, got {given}{nearest(str(given), self.words)}")
        whole = isinstance(self.default, int)
        if isinstance(given, int if whole else (int, float)) and not isinstance(given, bool):
            number = given if whole else float(given)
            if self.least <= number <= self.most:
                return number
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"must be {kind} from {self.least:g} to {self.most:g}, got {given}")


def options_of(name: str) -> dict[str, Value]:
    """The options that follow a component's name: ``rope_2d(base=10000)`` has base 10000."""
    options: dict[str, Value] = {}
    for part in filter(None, name.partition("(")[2].removesuffix(")").split(", ")):
        option, _, text = part.partition("=")
        try:
            options[option] = json.loads(text)
        except ValueError:
            options[option] = text
    return options


def listed_options(options: Mapping[str, Value]) -> str:
    """Options as they stand behind a name: ``base=10000, jitter=true``."""
    return ", ".join(f"{o}={v if isinstance(v, str) else format_number(v)}" for o, v in options.items())


def format_number(value: float) -> str:
    """A number or a switch as a name and a suite write it."""
    return str(value).lower() if isinstance(value, bool) else format(value, ".12g")
