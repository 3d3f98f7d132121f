"""Twenty answers of another kind than those that the rule of headlines was changed by.

Longer documents, as people have them, two to five in a prompt. Written before anything was measured
with them, and measured once.
"""

from __future__ import annotations

# Documents, a question, an answer, and the numbers of the documents that have it.
Fresh = tuple[tuple[str, ...], str, str, tuple[int, ...]]

HOTEL = (
    "Check-in starts at three in the afternoon and the desk is staffed until midnight. Breakfast is"
    " served in the winter garden from seven to half past ten. Dogs are welcome for a fee of 18"
    " euros per night."
)
PRINTER = (
    "To reset the printer, hold the green button for eight seconds until the lamp blinks twice. The"
    " tray takes up to 250 sheets. Use only cartridges of the series K40."
)
MINUTES = (
    "Minutes of the board, 4 March. Present: Ms Orlov, Mr Banda, Ms Lindqvist. The budget was"
    " approved without changes. Mr Banda will move to the office in Porto in June."
)
LEASE = (
    "The rent is due on the third working day of each month. The tenant may keep one cat. Notice"
    " must be given eleven weeks before the end of the lease."
)
RECIPE = (
    "Roast the beetroot for an hour and let it cool. Whisk the yoghurt with a spoonful of"
    " horseradish. Sprinkle everything with toasted hazelnuts before serving."
)
RELEASE = (
    "Version 4.2 adds dark mode and faster search. The old export to CSV was removed. Passwords"
    " must now have at least fourteen characters."
)
TRAIL = (
    "The trail begins behind the chapel and climbs through beech forest. After two hours you reach"
    " the Wolf Saddle. The hut there is closed on Tuesdays."
)
CLINIC = (
    "Please come to the blood test without breakfast. Results are sent by post within six days. The"
    " laboratory is on the second floor of the east wing."
)
LETTER = (
    "Dear Emil, the piano arrived safely, but the stool is missing. Aunt Greta has taken up"
    " fencing. We hope to visit you in Bergen when the snow is gone."
)
CLUB = (
    "The chess club meets on Thursdays in the old fire station. Membership costs 35 francs a year."
    " Beginners are taught by Selma Roth."
)
GARDEN = (
    "Water the lemon tree once a week and keep it away from the radiator. The ferns need shade."
    " Feed the pond fish with a pinch of flakes on Mondays only."
)
WARRANTY = (
    "The warranty covers the motor for seven years. Scratches are not covered. Send the kettle to"
    " the workshop in Graz, with the receipt."
)

FRESH: tuple[Fresh, ...] = (
    (
        (HOTEL, PRINTER, MINUTES),
        "How much does it cost to bring a dog?",
        "Dogs are welcome for a fee of 18 euros per night.",
        (0,),
    ),
    (
        (LEASE, RECIPE, PRINTER, TRAIL),
        "How do I reset the printer?",
        "Hold the green button for eight seconds until the lamp blinks twice.",
        (2,),
    ),
    (
        (CLUB, LETTER, MINUTES),
        "Where will Mr Banda move?",
        "He will move to the office in Porto.",
        (2,),
    ),
    (
        (RELEASE, LEASE),
        "When must notice be given?",
        "You must give notice eleven weeks before the lease ends.",
        (1,),
    ),
    (
        (TRAIL, CLINIC, RECIPE, GARDEN, HOTEL),
        "What goes on top of the beetroot?",
        "Toasted hazelnuts are sprinkled on top.",
        (2,),
    ),
    (
        (RELEASE, WARRANTY, CLUB),
        "How long must passwords be?",
        "Passwords must have at least fourteen characters.",
        (0,),
    ),
    (
        (LETTER, TRAIL, GARDEN, LEASE),
        "When is the hut on the Wolf Saddle closed?",
        "It is closed on Tuesdays.",
        (1,),
    ),
    (
        (CLINIC, PRINTER),
        "How are the results of the blood test sent?",
        "The results are sent by post within six days.",
        (0,),
    ),
    (
        (HOTEL, RELEASE, LETTER),
        "What is missing from the delivery of the piano?",
        "The piano arrived, but the stool is missing.",
        (2,),
    ),
    (
        (GARDEN, CLUB, WARRANTY, MINUTES, CLINIC),
        "Where do I send the kettle for repair?",
        "Send it to the workshop in Graz.",
        (2,),
    ),
    (
        (CLUB, "Selma Roth is a dentist. On Thursdays she teaches beginners chess.", RECIPE),
        "Who teaches the beginners of the chess club?",
        "The beginners are taught by Selma Roth.",
        (0, 1),
    ),
    (
        (GARDEN, LEASE, "Remember that the fish get their flakes on Mondays and never else."),
        "On which day are the pond fish fed?",
        "The fish are fed on Mondays.",
        (0, 2),
    ),
    (
        (WARRANTY, TRAIL, "The kettle's motor has a guarantee of seven years."),
        "For how many years is the motor of the kettle covered?",
        "The motor is covered for seven years.",
        (0, 2),
    ),
    (
        ("Breakfast: 7:00 to 10:30, winter garden.", MINUTES, HOTEL),
        "Where is breakfast served?",
        "Breakfast is served in the winter garden.",
        (0, 2),
    ),
    (
        (LEASE, CLINIC, RECIPE),
        "How many minutes does an hour have?",
        "An hour has sixty minutes.",
        (),
    ),
    (
        (PRINTER, CLUB),
        "What is the capital of Italy?",
        "The capital of Italy is Rome.",
        (),
    ),
    (
        (TRAIL, WARRANTY, LETTER, HOTEL),
        "Which season comes after winter?",
        "Spring comes after winter.",
        (),
    ),
    (
        (MINUTES, GARDEN, RELEASE),
        "What do bees make?",
        "Bees make honey.",
        (),
    ),
    (
        (CLINIC, LETTER, CLUB, LEASE),
        "What freezes at zero degrees Celsius?",
        "Water freezes at zero degrees Celsius.",
        (),
    ),
    (
        (RECIPE, HOTEL, PRINTER),
        "Thank you! Is that all?",
        "Yes, that is all. I hope this helps.",
        (),
    ),
)
