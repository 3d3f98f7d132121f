"""A small agreement data set and corpora, in the formats of the real ones."""

import gzip
import itertools
import zipfile

NOUNS = ("dog", "cat", "house", "key", "book", "tree", "river", "car", "king", "boat")
ADJECTIVES = ("old", "big", "red", "small", "new")
CONLLU = "\n".join(
    "\t".join((str(i), w, w, "_", tag, "_", head, role, "_", "_"))
    for i, w, tag, head, role in (
        (1, "The", "DT", "2", "det"), (2, "dogs", "NNS", "6", "nsubj"),
        (3, "near", "IN", "5", "case"), (4, "the", "DT", "5", "det"),
        (5, "house", "NN", "2", "nmod"), (6, "bark", "VBP", "0", "root"),
    )
)  # fmt: skip


def write(folder):
    """Write both folders; natural rows are determiner, adjective, noun and perhaps an attractor."""
    sva, corpora = folder / "sva", folder / "corpora"
    (sva / "full_sentences").mkdir(parents=True)
    corpora.mkdir()
    plain, attracted = [], []
    for adjective, noun, plural in itertools.product(ADJECTIVES, NOUNS, (False, True)):
        label, subject = ("VBP", noun + "s") if plural else ("VBZ", noun)
        plain.append(f"{label}\tthe {adjective} {subject}")
        for other in NOUNS[:4]:
            attractor = other if plural else other + "s"
            attracted.append(f"{label}\tthe {adjective} {subject} of the {attractor}")
    (sva / "numpred.val").write_text("\n".join(plain + attracted[::3]) + "\n")
    for count in range(1, 6):
        (sva / f"numpred.test.{count}").write_text("\n".join(attracted[count::7]) + "\n")
    header = "sentence\tsubj_idx\tverb_idx\tverb_pos\tverb\tinflected_verb\n"
    lines = "the tall kings of the house are here .\t2\t6\tVBP\tare\tis\n"
    lines += "the car is red .\t1\t2\tVBZ\tis\tare\n"
    (sva / "full_sentences" / "wiki-dev.txt").write_text(header + lines)
    tagged = [f"the/at {n}/nn is/bez {a}/jj ./." for n in NOUNS for a in ADJECTIVES]
    tagged += [f"the/at {n}s/nns of/in London/np were/bed here/rb ./." for n in NOUNS]
    with zipfile.ZipFile(corpora / "brown.zip", "w") as archive:
        archive.writestr("brown/ca01", "\n\n".join(tagged))
    with zipfile.ZipFile(corpora / "masc_tagged.zip", "w") as archive:
        archive.writestr("masc_tagged/a.txt", "The_DT boats_NNS often_RB leave_VBP ._.\n")
    with gzip.open(corpora / "ud_english_ewt.conllu.gz", "wt") as file:
        file.write(CONLLU + "\n\n")
    return sva, corpora
