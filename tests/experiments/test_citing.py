"""The trial of citations: its cases, and its truth on a sentence written out by hand."""

import itertools

from attnflow_experiments.citing.cases import TUNED, make_cases
from attnflow_experiments.citing.report import by_deletions, cited


def test_every_case_has_its_documents_and_two_sentences():
    cases = list(make_cases())
    assert len(cases) == TUNED + 40
    for case in cases:
        assert len(set(case.documents)) == 4
        assert case.answer == f"{case.said[0].text} {case.said[1].text}"
        sizes = {"one": 1, "none": 0}
        for at, said in enumerate(case.said):
            assert len(case.meant(at)) == sizes.get(said.kind, 2)


def test_documents_count_by_every_deletion():
    """Document 0 is needed, with 1 or 2; the second sentence rests on none."""
    runs = []
    for size in range(5):
        for gone in itertools.combinations(range(4), size):
            likely = 0 not in gone and not {1, 2} <= set(gone)
            runs.append([list(gone), [-1.0 if likely else -9.0, -2.0]])
    known = {"runs": runs, "places": [[0], [1], [2], [3]], "passages": [[[at]] for at in range(4)]}
    assert by_deletions(known) == [{0, 1, 2}, set()]
    found, passes = cited(4)(known)
    assert found == [{0, 1, 2}, set()]
    assert 6 <= passes <= 12
    known |= {"scores": [[[4, 3, 2, 1], [1, 2, 3, 4]], []], "scoring": 3.5}
    assert cited(2)(known)[0] == [{0, 1, 2}, set()]
