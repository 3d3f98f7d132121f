"""Twenty questions over three short documents each, every fact in one of them; all invented."""

from __future__ import annotations

from dataclasses import dataclass

# Sentences of a document, a question about one of them, and what the answer must hold.
FACTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        (
            "The harbour of Velm lies on a narrow bay.",
            "It was built in 1874 by the engineer Ada Kroll.",
            "Today mostly fishing boats use it.",
        ),
        "Who built the harbour of Velm?",
        "Kroll",
    ),
    (
        (
            "The clock museum of Tarn opened in a former mill.",
            "Its collection holds 312 clocks.",
            "Visitors may wind one of them every Sunday.",
        ),
        "How many clocks does the museum of Tarn have?",
        "312",
    ),
    (
        (
            "In the valley of Orsk people keep bees.",
            "The hives there are made of cork.",
            "Honey is sold at the market in spring.",
        ),
        "What are the hives in the valley of Orsk made of?",
        "cork",
    ),
    (
        (
            "The poet Lena Marsh grew up on an island.",
            "Her first book was called Salt Letters.",
            "She later taught at a village school.",
        ),
        "What was the first book of Lena Marsh called?",
        "Salt",
    ),
    (
        (
            "The Brindle is a breed of small horses.",
            "It is famous for swimming long distances.",
            "Farmers use it in the marshes of the south.",
        ),
        "What is the Brindle horse famous for?",
        "swim",
    ),
    (
        (
            "The tower of Hask stands beside the old road.",
            "It was struck by lightning in 1911.",
            "Since then it has had no roof.",
        ),
        "When was the tower of Hask struck by lightning?",
        "1911",
    ),
    (
        (
            "Pellin is a cheese from the northern hills.",
            "It is aged for nine months in a cave.",
            "Its rind is washed with cider.",
        ),
        "For how long is Pellin cheese aged?",
        "nine",
    ),
    (
        (
            "The Corva river begins at a glacier.",
            "It flows into Lake Menda.",
            "Its water is green in early summer.",
        ),
        "Into which lake does the Corva river flow?",
        "Menda",
    ),
    (
        (
            "The painter Otto Reis worked in a lighthouse.",
            "He painted only with blue pigments.",
            "Nineteen of his works survive.",
        ),
        "Which colour of pigments did Otto Reis use?",
        "blue",
    ),
    (
        (
            "The train from Dorn to Palwick is slow.",
            "The journey takes four hours.",
            "It stops at every village on the way.",
        ),
        "How long does the train from Dorn to Palwick take?",
        "four",
    ),
    (
        (
            "The school in Ebern has a large garden.",
            "Its pupils grow pumpkins there.",
            "The harvest is cooked in the kitchen.",
        ),
        "What do the pupils of the school in Ebern grow?",
        "pumpkin",
    ),
    (
        (
            "The violin maker Ines Vall lives in Rosten.",
            "She carves her violins from cherry wood.",
            "An order takes her two years.",
        ),
        "Which wood does Ines Vall carve her violins from?",
        "cherry",
    ),
    (
        (
            "The island of Skerr has no cars.",
            "Its mail is delivered by donkey.",
            "About ninety people live there.",
        ),
        "How is mail delivered on the island of Skerr?",
        "donkey",
    ),
    (
        (
            "The theatre of Lunt was closed for a decade.",
            "It was reopened by the actress Mara Finn.",
            "The first play was a comedy.",
        ),
        "Who reopened the theatre of Lunt?",
        "Finn",
    ),
    (
        (
            "The comet Adler was seen for three weeks.",
            "It returns every 88 years.",
            "Its tail looked yellow from the ground.",
        ),
        "How often does the comet Adler return?",
        "88",
    ),
    (
        (
            "The bakery on Finch Street opens at dawn.",
            "Its bread is baked with chestnut flour.",
            "It is sold out before noon.",
        ),
        "Which flour does the bakery on Finch Street use?",
        "chestnut",
    ),
    (
        (
            "The bridge at Nolt crosses a deep gorge.",
            "It is 240 metres long.",
            "Walking over it takes courage in the wind.",
        ),
        "How long is the bridge at Nolt?",
        "240",
    ),
    (
        (
            "The botanist Karl Ivers collected mosses.",
            "He discovered a red moss in Iceland.",
            "It was named after his daughter.",
        ),
        "Where did Karl Ivers discover a red moss?",
        "Iceland",
    ),
    (
        (
            "The village of Amsel has a strange custom.",
            "Every May its people race on stilts.",
            "The winner keeps a silver spoon.",
        ),
        "What do the people of Amsel race on?",
        "stilts",
    ),
    (
        (
            "The library of Gorse is open at night.",
            "Its oldest book is about falcons.",
            "Readers must wear felt shoes.",
        ),
        "What is the oldest book in the library of Gorse about?",
        "falcon",
    ),
)
DOCUMENTS = 3


@dataclass(frozen=True)
class Case:
    """A question over documents.

    Attributes:
        documents: Their sentences.
        question: The question.
        answer: What a right answer holds.
        fact: The number of the document that has the fact.
    """

    documents: tuple[tuple[str, ...], ...]
    question: str
    answer: str
    fact: int

    @property
    def content(self) -> str:
        """What the user writes."""
        texts = [" ".join(each) for each in self.documents]
        return "\n\n".join([*texts, f"{self.question} Answer in one short sentence."])


def make_cases(count: int) -> list[Case]:
    """The first cases; the fact is in each place equally often.

    After the last fact they begin again, with the fact in another place among other documents.
    """
    cases = []
    for number in range(count):
        again, at = divmod(number, len(FACTS))
        sentences, question, answer = FACTS[at]
        others = [FACTS[(at + step + again) % len(FACTS)][0] for step in (7, 13)]
        place = number % DOCUMENTS
        documents = [*others[:place], sentences, *others[place:]]
        cases.append(Case(tuple(documents), question, answer, place))
    return cases
