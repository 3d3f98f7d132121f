"""The words of the trials: planted sentences, facts and contrasts, written for this purpose."""

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
    ("The capital of Germany is the city of", ("capital", "Germany")),
    ("The capital of Spain is the city of", ("capital", "Spain")),
    ("The capital of Russia is the city of", ("capital", "Russia")),
    ("The capital of Egypt is the city of", ("capital", "Egypt")),
    ("The capital of Ireland is the city of", ("capital", "Ireland")),
    ("The Colosseum is in the city of", ("Colosseum",)),
    ("The Kremlin is in the city of", ("Kremlin",)),
    ("Buckingham Palace is in the city of", ("Buckingham", "Palace")),
    ("The Statue of Liberty is in New", ("Statue", "Liberty", "New")),
    ("The official language of Brazil is", ("language", "Brazil")),
    ("The official language of Japan is", ("language", "Japan")),
    ("The official language of Greece is", ("language", "Greece")),
    ("In Italy people speak", ("Italy", "speak")),
    ("The currency of Japan is the", ("currency", "Japan")),
    ("The currency of the United Kingdom is the", ("currency", "United", "Kingdom")),
    ("The opposite of big is", ("opposite", "big")),
    ("The opposite of good is", ("opposite", "good")),
    ("The opposite of fast is", ("opposite", "fast")),
    ("The opposite of wet is", ("opposite", "wet")),
    ("The opposite of strong is", ("opposite", "strong")),
    ("The color of snow is", ("color", "snow")),
    ("The color of coal is", ("color", "coal")),
    ("The color of blood is", ("color", "blood")),
    ("The day after Saturday is", ("after", "Saturday")),
    ("The month after March is", ("after", "March")),
    ("The month before February is", ("before", "February")),
    ("The season after winter is", ("after", "winter", "season")),
    ("A baby lion is called a", ("baby", "lion")),
    ("A baby sheep is called a", ("baby", "sheep")),
    ("Three plus three equals", ("Three", "plus", "three")),
    ("The largest planet in the solar system is", ("largest", "planet")),
    ("The planet closest to the sun is", ("planet", "closest")),
    ("Water freezes at zero degrees", ("degrees", "zero")),
    ("The chemical symbol for gold is", ("symbol", "gold")),
    ("Water is made of hydrogen and", ("Water", "hydrogen")),
    ("The painting of the Mona Lisa was made by Leonardo da", ("Mona", "Lisa", "Leonardo")),
    ("The telephone was invented by Alexander Graham", ("telephone", "Alexander", "Graham")),
    ("The theory of evolution was developed by Charles", ("evolution", "Charles")),
    ("Microsoft was founded by Bill", ("Microsoft", "Bill")),
    ("Cows give", ("Cows", "give")),
)
CITIES = (
    *("Paris", "London", "Rome", "Berlin", "Madrid", "Tokyo", "Moscow", "Athens", "Cairo"),
    *("Vienna", "Dublin", "Beijing", "Sydney", "Lisbon", "Warsaw", "Oslo", "Prague", "Istanbul"),
)
LANGUAGES = (
    *("French", "English", "German", "Spanish", "Italian", "Portuguese", "Russian", "Japanese"),
    *("Chinese", "Greek", "Arabic", "Dutch", "Polish", "Swedish", "Turkish"),
)
COUNTRIES = (
    *("France", "England", "Italy", "Germany", "Spain", "Japan", "China", "Russia", "Egypt"),
    *("India", "Greece", "Peru", "Brazil", "Mexico", "Canada", "Australia", "Turkey"),
)
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "orange", "brown", "pink", "grey")
CONTRASTS = (  # prompt, the words that are put in, and the answers that are compared
    (
        "The {} is in the city of",
        ("Colosseum", "Kremlin", "Louvre", "Acropolis", "Vatican"),
        CITIES,
    ),
    ("The {} Tower is in the city of", ("Eiffel",), CITIES),
    ("The {} Gate is in the city of", ("Brandenburg",), CITIES),
    ("{} Palace is in the city of", ("Buckingham",), CITIES),
    (
        "The capital of {} is the city of",
        (
            *("France", "Japan", "Germany", "Spain", "Russia", "Greece", "Egypt", "Austria"),
            *("Ireland", "China", "England", "Portugal", "Poland", "Norway"),
        ),
        CITIES,
    ),
    (
        "The official language of {} is",
        (
            *("France", "Germany", "Italy", "Portugal", "Russia", "Japan", "China", "Greece"),
            *("Egypt", "Brazil", "Austria", "England"),
        ),
        LANGUAGES,
    ),
    (
        "The city of {} is the capital of",
        ("Paris", "Rome", "Berlin", "Madrid", "Tokyo", "Moscow", "Cairo", "Beijing"),
        COUNTRIES,
    ),
    ("The usual color of {} is", ("tomato", "snow", "coal", "blood"), COLOURS),
)
