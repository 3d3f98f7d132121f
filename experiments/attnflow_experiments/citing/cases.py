"""Forty answers of two sentences over four documents: facts of one, of two, of either, of none.

What is told in `attnflow_experiments.parts.cases` is said again in other words by a second document
where a sentence rests on either of two. The bridges need two documents for one fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from attnflow_experiments.parts.cases import FACTS

Sentences = tuple[str, ...]
ONE, BOTH, EITHER, NONE, BRIDGE = "one", "both", "either", "none", "bridge"
DOCUMENTS = 4
TUNED = 8  # the first cases, on which thresholds were chosen; they are in no table

# Of each fact: the sentence of an answer, and another document that tells it, too.
TOLD: tuple[tuple[str, Sentences], ...] = (
    (
        "The harbour of Velm was built in 1874 by the engineer Ada Kroll.",
        (
            "Velm is known for its old harbour.",
            "It is the work of the engineer Ada Kroll, who built it in 1874.",
        ),
    ),
    (
        "The clock museum of Tarn has 312 clocks.",
        ("Tarn is proud of its clock museum.", "You can see 312 clocks in it."),
    ),
    (
        "The hives in the valley of Orsk are made of cork.",
        ("Beekeepers of the valley of Orsk build their hives of cork.", "They live in huts."),
    ),
    (
        "The first book of Lena Marsh was called Salt Letters.",
        ("Salt Letters is a book of poems.", "It was the first book that Lena Marsh published."),
    ),
    (
        "The Brindle horse is famous for swimming long distances.",
        ("The marshes have horses, too.", "The Brindle, for example, can swim long distances."),
    ),
    (
        "The tower of Hask was struck by lightning in 1911.",
        ("In 1911 lightning struck the tower of Hask.", "Nobody was inside."),
    ),
    (
        "Pellin cheese is aged for nine months in a cave.",
        ("Good cheese takes time.", "Pellin, for example, lies in a cave for nine months."),
    ),
    (
        "The Corva river flows into Lake Menda.",
        ("Lake Menda is full of reeds.", "The Corva river flows into it from the south."),
    ),
    (
        "Otto Reis painted only with blue pigments.",
        ("Some painters need one colour.", "Otto Reis, for example, used blue pigments only."),
    ),
    (
        "The train from Dorn to Palwick takes four hours.",
        ("Palwick can be reached by train.", "From Dorn it takes four hours."),
    ),
    (
        "The pupils of the school in Ebern grow pumpkins.",
        ("Ebern smells of soup in autumn.", "The pupils of its school grow pumpkins."),
    ),
    (
        "Ines Vall carves her violins from cherry wood.",
        ("Cherry wood makes fine violins.", "Ines Vall carves hers from it."),
    ),
    (
        "Mail is delivered by donkey on the island of Skerr.",
        ("A donkey called Pip lives on the island of Skerr.", "It delivers the mail."),
    ),
    (
        "The theatre of Lunt was reopened by the actress Mara Finn.",
        ("Mara Finn is an actress.", "It was she who reopened the theatre of Lunt."),
    ),
    (
        "The comet Adler returns every 88 years.",
        ("Some comets are seen twice in a life.", "Adler, for example, returns every 88 years."),
    ),
    (
        "The bakery on Finch Street bakes with chestnut flour.",
        ("Chestnut flour is rare.", "The bakery on Finch Street bakes its bread with it."),
    ),
    (
        "The bridge at Nolt is 240 metres long.",
        ("Nolt has a famous bridge.", "From end to end it is 240 metres long."),
    ),
    (
        "Karl Ivers discovered a red moss in Iceland.",
        ("A red moss grows in Iceland.", "It was Karl Ivers who discovered it."),
    ),
    (
        "The people of Amsel race on stilts every May.",
        ("Stilts are sold all over Amsel.", "Its people race on them every May."),
    ),
    (
        "The oldest book in the library of Gorse is about falcons.",
        ("Falcons are kept in Gorse.", "The oldest book in its library is about them."),
    ),
)

# What models know, or say anyway: a question and the sentence of an answer.
KNOWN: tuple[tuple[str, str], ...] = (
    ("What is the capital of France?", "The capital of France is Paris."),
    ("How many days does a week have?", "A week has seven days."),
    ("Where does the sun rise?", "The sun rises in the east."),
    ("Is that all?", "I hope this helps, and please let me know if you have other questions."),
    ("At which temperature does water boil?", "Water boils at 100 degrees Celsius."),
    ("What is two plus two?", "Two plus two is four."),
)

# Two documents, a question over both, and the sentence of an answer.
BRIDGES: tuple[tuple[Sentences, Sentences, str, str], ...] = (
    (
        ("The mill of Perrin stands on a hill.", "It belongs to Jon Adair.", "It has four sails."),
        ("Jon Adair is a carpenter.", "His workshop is in Lisbon.", "He has two sons."),
        "In which city does the owner of the mill of Perrin work?",
        "The mill of Perrin belongs to Jon Adair, whose workshop is in Lisbon.",
    ),
    (
        ("The ship Merle left in spring.", "Its cargo was amber.", "The crew was young."),
        ("Amber was sold in Tallin.", "A pound of amber cost nine crowns.", "Prices rose later."),
        "What did a pound of the cargo of the ship Merle cost?",
        "The cargo of the Merle was amber, which cost nine crowns a pound.",
    ),
    (
        ("The opera Nacht is short.", "It was written by Clara Voss.", "It has one act."),
        ("Clara Voss played the harp.", "She was born in 1803.", "She never married."),
        "When was the composer of the opera Nacht born?",
        "The opera Nacht was written by Clara Voss, who was born in 1803.",
    ),
    (
        ("The inn at Sarl has a garden.", "Its cook is Tomas Bell.", "Guests come by boat."),
        ("Tomas Bell learned from his aunt.", "His best dish is eel soup.", "He sings at work."),
        "What is the best dish of the cook of the inn at Sarl?",
        "The cook of the inn at Sarl is Tomas Bell, whose best dish is eel soup.",
    ),
    (
        ("The team of Ruden won the cup.", "Its captain is Nora Hale.", "They wear green."),
        ("Nora Hale trains at night.", "Her number is 17.", "She is a nurse."),
        "Which number does the captain of the team of Ruden have?",
        "The captain of the team of Ruden is Nora Hale, whose number is 17.",
    ),
    (
        ("The castle of Ems is a ruin.", "It was burned by Duke Arno.", "Owls nest in it."),
        ("Duke Arno was feared.", "He died at the battle of Lohn.", "His tomb is plain."),
        "Where did the one who burned the castle of Ems die?",
        "The castle of Ems was burned by Duke Arno, who died at the battle of Lohn.",
    ),
)

# Kinds of the two sentences of an answer, in turn.
KINDS = cycle(
    [
        *((ONE, NONE), (BOTH, NONE), (EITHER, ONE), (BRIDGE, NONE)),
        *((ONE, EITHER), (NONE, BOTH), (EITHER, NONE), (ONE, BOTH)),
    ]
)


@dataclass(frozen=True)
class Said:
    """A sentence of an answer, what it was asked by, and the documents that tell it.

    Attributes:
        kind: What it rests on: one document, two, either of two, or none.
        text: The sentence.
        question: The question that it answers.
        documents: The documents, each as its sentences.
    """

    kind: str
    text: str
    question: str
    documents: tuple[Sentences, ...]


@dataclass(frozen=True)
class Case:
    """A question over documents, and an answer to it.

    Attributes:
        documents: Each as its sentences.
        said: The sentences of the answer.
    """

    documents: tuple[Sentences, ...]
    said: tuple[Said, ...]

    @property
    def parts(self) -> dict[str, str]:
        """The documents by their names, as texts."""
        return {f"document {n}": " ".join(each) for n, each in enumerate(self.documents, 1)}

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the user writes."""
        asked = " ".join(dict.fromkeys(each.question for each in self.said))
        content = "\n\n".join([*self.parts.values(), f"{asked} Answer in two short sentences."])
        return [{"role": "user", "content": content}]

    @property
    def answer(self) -> str:
        """The answer."""
        return " ".join(each.text for each in self.said)

    def meant(self, number: int) -> set[int]:
        """The documents that a sentence was written from."""
        return {self.documents.index(each) for each in self.said[number].documents}


def make_cases(count: int = TUNED + 40) -> Iterator[Case]:
    """Cases in their order; documents take turns at every place."""
    facts, known, bridges = cycle(range(len(TOLD))), cycle(KNOWN), cycle(BRIDGES)

    def say(kind: str) -> Said:
        if kind == NONE:
            question, text = next(known)
            return Said(kind, text, question, ())
        if kind == BRIDGE:
            first, second, question, text = next(bridges)
            return Said(kind, text, question, (first, second))
        fact = next(facts)
        document, question, _ = FACTS[fact]
        told, again = TOLD[fact]
        if kind == ONE:
            return Said(kind, told, question, (document,))
        if kind == EITHER:
            return Said(kind, told, question, (document, again))
        other = next(facts)
        joined = f"{told[:-1]}, and {_continued(TOLD[other][0])}"
        return Said(kind, joined, f"{question} {FACTS[other][1]}", (document, FACTS[other][0]))

    for number, kinds in zip(range(count), KINDS, strict=False):
        said = tuple(map(say, kinds))
        documents = [each for one in said for each in one.documents]
        while len(documents) < DOCUMENTS:
            documents.append(FACTS[next(facts)][0])
        yield Case(_turned(documents, number), said)


def _turned(documents: Sequence[Sentences], number: int) -> tuple[Sentences, ...]:
    by = number % DOCUMENTS
    return (*documents[by:], *documents[:by])


def _continued(sentence: str) -> str:
    """A sentence behind “and”: names keep their capital, articles don't."""
    first = sentence.split(maxsplit=1)[0]
    return sentence[0].lower() + sentence[1:] if first in ("The", "Mail") else sentence
