"""Sixty questions over three short documents each, every fact in one of them; all invented."""

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
    (
        (
            "The glass works of Hollin stand by the canal.",
            "Their furnace is heated with olive stones.",
            "Visitors may watch it from a gallery.",
        ),
        "What is the furnace of the Hollin glass works heated with?",
        "olive",
    ),
    (
        (
            "The ferry Petrel crosses the sound of Aith.",
            "It carries at most 60 passengers.",
            "In storms it stays in the harbour.",
        ),
        "How many passengers does the ferry Petrel carry at most?",
        "60",
    ),
    (
        (
            "The abbey of Sorn was empty for years.",
            "Today it is used as a skating rink.",
            "Its windows were replaced in autumn.",
        ),
        "What is the abbey of Sorn used as today?",
        "skating",
    ),
    (
        (
            "The biologist Nora Quist studies owls.",
            "She found that they avoid copper roofs.",
            "Her notes fill eleven books.",
        ),
        "Which roofs do owls avoid, as Nora Quist found?",
        "copper",
    ),
    (
        (
            "The village of Brask has one shop.",
            "Its owner is the retired sailor Tom Ulver.",
            "He sells rope, lamps and flour.",
        ),
        "Who owns the shop of Brask?",
        "Ulver",
    ),
    (
        (
            "The opera house of Calder burned down.",
            "It was rebuilt in 1936.",
            "The new stage turns on wheels.",
        ),
        "When was the opera house of Calder rebuilt?",
        "1936",
    ),
    (
        (
            "The dish called mirral comes from the coast.",
            "It is made of smoked mussels and rice.",
            "People eat it with their hands.",
        ),
        "Which seafood is mirral made of?",
        "mussels",
    ),
    (
        (
            "The airship Lark was built for the post.",
            "Its engine ran on alcohol.",
            "It made one flight a week.",
        ),
        "What did the engine of the airship Lark run on?",
        "alcohol",
    ),
    (
        (
            "The lake of Venn freezes early.",
            "In winter a market is held on its ice.",
            "Skates can be borrowed there.",
        ),
        "What is held on the ice of the lake of Venn in winter?",
        "market",
    ),
    (
        (
            "The mine at Crull was closed long ago.",
            "Workers dug tin there.",
            "Bats live in its tunnels today.",
        ),
        "What did workers dig in the mine at Crull?",
        "tin",
    ),
    (
        (
            "The composer Hugo Lindt wrote only at night.",
            "His best known work is a quartet for flutes.",
            "He lived to be ninety.",
        ),
        "For which instruments is the best known quartet of Hugo Lindt?",
        "flute",
    ),
    (
        (
            "The walnut fair of Mossel draws crowds.",
            "It takes place in October.",
            "Prizes are given for the largest nut.",
        ),
        "In which month is the walnut fair of Mossel?",
        "October",
    ),
    (
        (
            "The lighthouse of Pell has a red lamp.",
            "Its keeper raises geese.",
            "The stairs have two hundred steps.",
        ),
        "Which animals does the keeper of the Pell lighthouse raise?",
        "geese",
    ),
    (
        (
            "The cloth of Anst is very soft.",
            "It is dyed with onion skins.",
            "Coats of it are passed on for generations.",
        ),
        "What is the cloth of Anst dyed with?",
        "onion",
    ),
    (
        (
            "The observatory of Tirol Hill is open on clear nights.",
            "Its telescope was a gift from the king of Denmark.",
            "Children may look first.",
        ),
        "The king of which country gave the observatory of Tirol Hill its telescope?",
        "Denmark",
    ),
    (
        (
            "The Gant desert is crossed by one road.",
            "Travellers sleep in huts of salt.",
            "Water is brought by truck.",
        ),
        "What are the huts in the Gant desert made of?",
        "salt",
    ),
    (
        (
            "The chess club of Orley meets on Mondays.",
            "Its youngest member is seven years old.",
            "Tea is served after the last game.",
        ),
        "How old is the youngest member of the chess club of Orley?",
        "seven",
    ),
    (
        (
            "The river Isk is known for its fish.",
            "A dam was built across it by the company Norvell.",
            "Boats pass through a lock.",
        ),
        "Which company built the dam across the river Isk?",
        "Norvell",
    ),
    (
        (
            "The gardener Paul Reed lives in Wend.",
            "He breeds black tulips.",
            "His greenhouse is open in April.",
        ),
        "Which flowers does Paul Reed breed?",
        "tulip",
    ),
    (
        (
            "The hotel Miramonde has forty rooms.",
            "Guests pay with seashells.",
            "Breakfast is served on the roof.",
        ),
        "What do guests of the hotel Miramonde pay with?",
        "shell",
    ),
    (
        (
            "The cave of Druss is hard to find.",
            "Its walls show paintings of bears.",
            "A guide is needed to go in.",
        ),
        "Which animals do the paintings in the cave of Druss show?",
        "bear",
    ),
    (
        (
            "The newspaper of Fellin has four pages.",
            "It is printed on Thursdays.",
            "Its editor writes every line.",
        ),
        "On which day is the newspaper of Fellin printed?",
        "Thursday",
    ),
    (
        (
            "The swimmer Eva Storm trains in a quarry.",
            "She crossed the strait of Luro in nine hours.",
            "A boat followed her all the way.",
        ),
        "How many hours did Eva Storm need to cross the strait of Luro?",
        "nine",
    ),
    (
        (
            "The bells of Harrow Down ring at noon.",
            "They were cast from old cannons.",
            "Their sound carries for miles.",
        ),
        "What were the bells of Harrow Down cast from?",
        "cannon",
    ),
    (
        (
            "The planet Ceto was found by chance.",
            "It has two moons.",
            "Its clouds are thick and warm.",
        ),
        "How many moons does the planet Ceto have?",
        "two",
    ),
    (
        (
            "The bus to Karsk leaves twice a day.",
            "Its driver sings ballads.",
            "Tickets can be bought on board.",
        ),
        "What does the driver of the bus to Karsk sing?",
        "ballad",
    ),
    (
        (
            "The Delph family makes kites.",
            "Their frames are of bamboo.",
            "The tails are sewn by hand.",
        ),
        "What are the frames of the Delph family's kites made of?",
        "bamboo",
    ),
    (
        (
            "The hospital of Ruun was founded by nuns.",
            "It is led by Doctor Amira Kosh.",
            "Its garden is famous for herbs.",
        ),
        "Who leads the hospital of Ruun?",
        "Kosh",
    ),
    (
        (
            "The wine of Torvo is sold in small bottles.",
            "It tastes of pepper.",
            "Only one family makes it.",
        ),
        "What does the wine of Torvo taste of?",
        "pepper",
    ),
    (
        (
            "The stadium of Quay Park is new.",
            "It seats 8,500 people.",
            "Its roof collects rain.",
        ),
        "How many people does the stadium of Quay Park seat?",
        "8,500",
    ),
    (
        (
            "The monks of Selm keep silence.",
            "They earn money by repairing watches.",
            "Their gate is closed after dark.",
        ),
        "What do the monks of Selm repair?",
        "watch",
    ),
    (
        (
            "The statue in Pine Square is of a dog.",
            "It was carved by the sculptor Lio Banner.",
            "Its nose is shiny from many hands.",
        ),
        "Who carved the statue in Pine Square?",
        "Banner",
    ),
    (
        (
            "The peak of Mount Ormen is always white.",
            "It was first climbed in 1902.",
            "The path begins at a chapel.",
        ),
        "When was Mount Ormen first climbed?",
        "1902",
    ),
    (
        (
            "The soap of Lisk is sold abroad.",
            "It smells of lavender.",
            "A bar of it lasts for months.",
        ),
        "What does the soap of Lisk smell of?",
        "lavender",
    ),
    (
        (
            "The language of Tumbria has few speakers.",
            "It has no word for winter.",
            "A dictionary is being written.",
        ),
        "For which season has the language of Tumbria no word?",
        "winter",
    ),
    (
        (
            "The canal at Estry is narrow.",
            "Barges on it are pulled by oxen.",
            "The towpath is lined with poplars.",
        ),
        "Which animals pull barges on the canal at Estry?",
        "ox",
    ),
    (
        (
            "The inventor Greta Holm had no laboratory.",
            "She invented a folding piano.",
            "It was shown at a fair in Lyon.",
        ),
        "Which instrument did Greta Holm invent a folding kind of?",
        "piano",
    ),
    (
        (
            "The forest of Nimm belongs to the town.",
            "Its oldest tree is a yew.",
            "Nobody may light a fire there.",
        ),
        "What kind of tree is the oldest in the forest of Nimm?",
        "yew",
    ),
    (
        (
            "The tea of Samur is picked at dawn.",
            "It is dried on linen sheets.",
            "A pound of it costs a fortune.",
        ),
        "On which sheets is the tea of Samur dried?",
        "linen",
    ),
    (
        (
            "The fire brigade of Tolk is proud of its past.",
            "Its first engine was drawn by camels.",
            "It stands in the town hall now.",
        ),
        "Which animals drew the first engine of the Tolk fire brigade?",
        "camel",
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
