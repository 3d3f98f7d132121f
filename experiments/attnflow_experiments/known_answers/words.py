"""The words of the trials: planted sentences and factual prompts, written for this purpose."""

GOOD = (
    *("wonderful", "superb", "delightful", "excellent", "brilliant"),
    *("lovely", "charming", "perfect", "fantastic", "great"),
)
BAD = (
    *("terrible", "awful", "dreadful", "horrible", "boring"),
    *("clumsy", "ugly", "painful", "disgusting", "poor"),
)
NEUTRAL = (
    "we took the early train to the harbour",
    "the room had two windows and a table",
    "my sister waited near the old station",
    "they sold bread and milk on the corner",
    "a man in a grey coat read the paper",
    "the bus stopped twice before the bridge",
    "somebody had left a box on the stairs",
    "it rained a little in the afternoon",
    "the shop next door was closed on monday",
    "our neighbour painted the fence last week",
)
DECIDING = (
    "the {thing} was {word}",
    "everyone called the {thing} {word}",
    "it was a {word} {thing}",
    "what a {word} {thing} they had",
)
THINGS = ("film", "meal", "book", "concert", "journey", "play", "dinner", "story", "song", "walk")
FACTS = (  # prompt, the words that decide its continuation
    ("The Eiffel Tower is in the city of", ("Eiffel", "Tower")),
    ("The capital of France is", ("capital", "France")),
    ("The capital of Japan is", ("capital", "Japan")),
    ("The capital of Italy is the city of", ("capital", "Italy")),
    ("The opposite of hot is", ("opposite", "hot")),
    ("The opposite of black is", ("opposite", "black")),
    ("The first president of the United States was George", ("president", "George")),
    ("The play Romeo and Juliet was written by William", ("Romeo", "Juliet", "William")),
    ("The theory of relativity was developed by Albert", ("relativity", "Albert")),
    ("Two plus two equals", ("Two", "plus", "two")),
    ("A baby dog is called a", ("baby", "dog")),
    ("A baby cat is called a", ("baby", "cat")),
    ("The color of the sky is", ("color", "sky")),
    ("Grass is usually the color", ("Grass", "color")),
    ("The day after Monday is", ("after", "Monday")),
    ("The month after January is", ("after", "January")),
    ("In Spain people speak", ("Spain", "speak")),
    ("In Germany people speak", ("Germany", "speak")),
    ("The Great Wall is located in", ("Great", "Wall")),
    ("Bees make", ("Bees", "make")),
)
