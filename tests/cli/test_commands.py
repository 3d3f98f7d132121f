"""What commands print and write, against the library's own answers."""

import json
import re

import numpy as np
import pytest
import transformers
from rich.cells import cell_len

import attnflow
import tiny
from attnflow.evaluation.agreement import spearman
from attnflow.views.wording.labels import distinct_labels
from attnflow.views.wording.numbers import correlation, percent, points

TEXT = "the keys to the cabinet"
TOKENS = ["[CLS]", "the", "keys", "to", "the", "cabinet", "[SEP]"]
METHODS = ("raw", "rollout", "flow")
NAMED = tuple(part for method in METHODS for part in ("--method", method))


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_explain_json_is_what_the_library_says(run, folder):
    ran = run("explain", TEXT, "-m", folder, *NAMED, "--json", "--layer", "2", "--query", "keys")
    assert ran.code == 0
    said = json.loads(ran.out)
    assert said["tokens"] == TOKENS
    assert (said["layer"], said["query"]) == (2, 2)
    for method in METHODS:
        expected = attnflow.explain(TEXT, folder, method=method, layer=2, query=2)
        np.testing.assert_allclose(said["scores"][method], expected.values, atol=1e-6)
        assert said["prediction"]["label"] == expected.prediction.label


def test_pairs_are_given_with_pair(run, tmp_path):
    model = tiny.build("bert", head=transformers.BertForSequenceClassification)
    model.save_pretrained(tmp_path)
    tiny.pair_piece().save_pretrained(tmp_path)
    ran = run("explain", "the cat", "a key", "--pair", "a mat", "--pair", TEXT, "-m", tmp_path)
    assert ran.code == 0
    shown = without_colours(ran.out)
    assert "the cat / a mat" in shown
    assert "second" in shown
    ran = run("explain", TEXT, "--pair", "the cat", "-m", tmp_path, "--json")
    said = json.loads(ran.out)
    expected = attnflow.explain((TEXT, "the cat"), tmp_path)
    np.testing.assert_allclose(said["scores"][expected.method], expected.values, atol=1e-6)
    assert said["options"][expected.method]["pair"] == [TEXT, "the cat"]
    ran = run("routes", TEXT, "--pair", "the cat", "--to", "cat", "-m", tmp_path, "--json")
    expected = attnflow.routes((TEXT, "the cat"), tmp_path, to="cat")
    assert json.loads(ran.out)["value"] == pytest.approx(expected.value)
    page = tmp_path / "pair.html"
    assert run("explain", TEXT, "--pair", "the cat", "-m", tmp_path, "--html", page).code == 0
    assert '"second"' in page.read_text(encoding="utf-8")
    picture = tmp_path / "pair.svg"
    asked = ("figure", "heatmap", TEXT, "--pair", "the cat", "-m", tmp_path, "-o", picture)
    assert run(*asked).code == 0
    assert "second" in picture.read_text(encoding="utf-8")


def test_similarity_says_what_the_library_says(run, tmp_path):
    tiny.build("bert").save_pretrained(tmp_path)
    tiny.word_piece().save_pretrained(tmp_path)
    texts = "the cat plays", "a key is here"
    expected = attnflow.similarity(*texts, tmp_path, words=True)
    drawn = tmp_path / "two.svg"
    more = ("--words", "-o", drawn, "--json")
    ran = run("similarity", *texts, "-m", tmp_path, *more)
    assert ran.code == 0
    said = json.loads(ran.out)
    assert said["cosine"] == pytest.approx(expected.cosine)
    np.testing.assert_allclose(said["scores"], expected.scores, atol=1e-7)
    assert "part of the cosine" in drawn.read_text(encoding="utf-8")
    shown = without_colours(run("similarity", *texts, "-m", tmp_path).out)
    assert f"cosine {expected.cosine:.3f}" in shown
    assert "special tokens" in shown
    assert "needs a model of sentence embeddings" in run("similarity", *texts).err
    ran = run("similarity", *texts, "-m", tmp_path, "-o", drawn)
    assert ran.code == 2
    assert "exists" in ran.err


def test_a_pair_for_each_text_or_for_none(run):
    ran = run("explain", TEXT, "a cat", "--pair", "a mat")
    assert ran.code == 2
    assert "there are 1 --pair and 2 texts" in without_colours(ran.err)
    assert run("compare", TEXT, "--pair", " ").code == 2


def test_explain_many_texts_from_arguments_a_file_and_standard_input(run, stdin, folder, tmp_path):
    texts = [TEXT, "a cat"]
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    common = ("--json", "-m", folder, "--method", "raw")
    given = run("explain", *texts, *common)
    assert [json.loads(line)["text"] for line in given.out.splitlines()] == texts
    assert run("explain", "--file", file, *common).out == given.out
    stdin("\n".join(texts).encode())
    assert run("explain", *common).out == given.out
    stdin(b"\xef\xbb\xbf" + TEXT.encode())  # files of Windows may start with this mark
    alone = json.loads(run("explain", "-", *common).out)
    assert alone["text"] == TEXT
    first = json.loads(given.out.splitlines()[0])
    assert alone["scores"]["raw"] == pytest.approx(first["scores"]["raw"], abs=1e-6)


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_explain_fits_the_terminal_and_shows_all_tokens(run, folder, columns, colour):
    ran = run("explain", f"{TEXT} " * 4, "-m", folder, *NAMED, columns=columns, colour=colour)
    assert ("\x1b[" in ran.out) == colour
    shown = without_colours(ran.out)
    assert max(map(cell_len, shown.splitlines())) <= columns
    for method in METHODS:
        assert re.search(rf"^{method} +\[CLS\]", shown, re.M)
    assert shown.count("cabinet") >= 12
    assert "LABEL_" in shown


def test_no_color_wins_over_a_terminal(run, folder, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    ran = run("explain", TEXT, "-m", folder, colour=True)
    assert not re.search(r"\x1b\[[0-9;]*(3|4)8;", ran.out)
    assert "█" in ran.out


def test_strip_is_strongest_where_the_score_is(run, folder):
    shown = run("explain", TEXT, "-m", folder, "--method", "raw", "--top", "0").out
    scores = attnflow.explain(TEXT, folder, method="raw").values[1:6]
    blocks = re.findall(r"[a-z]([▁▂▃▄▅▆▇█])", shown)
    assert len(blocks) == 5
    # From 0 to the highest score of ordinary tokens, as on the page.
    assert blocks == ["▁▂▃▄▅▆▇█"[min(7, int(8 * share))] for share in scores / scores.max()]


def test_explain_lists_the_top_tokens_in_order(run, folder):
    shown = run("explain", TEXT, "-m", folder, "--method", "flow", "--top", "3").out
    top = attnflow.explain(TEXT, folder, method="flow").top(3)
    listed = re.findall(r"^ *(\S+?)(?::\d)? +[█▏▎▍▌▋▊▉]+ +(\d\.\d{3})", shown, re.M)
    assert listed == [(token, f"{score:.3f}") for token, score in top]


def test_save_writes_all_scores_and_never_overwrites(run, folder, tmp_path):
    file = tmp_path / "scores.json"
    arguments = ("explain", TEXT, "-m", folder, "--layers", "all", "--save", file)
    assert run(*arguments, *NAMED).code == 0
    loaded = attnflow.Attribution.load_all(file)
    assert [item.method for item in loaded] == list(METHODS)
    assert loaded[2].layers == (1, 2, 3)
    before = file.read_bytes()
    again = run(*arguments, *NAMED)
    assert again.code == 2
    assert "--force" in again.err
    assert file.read_bytes() == before
    assert run(*arguments, "--method", "raw", "--force").code == 0
    assert attnflow.Attribution.load(file).method == "raw"


def test_words_instead_of_tokens(run, folder):
    said = json.loads(run("explain", "cats playing", "-m", folder, "--words", "--json").out)
    assert said["tokens"] == ["[CLS]", "cats", "playing", "[SEP]"]
    shown = run("explain", "cats playing", "-m", folder, *NAMED, "--words", "--top", "0").out
    for method in METHODS:  # special tokens don't take the colours of words
        assert "█" in re.findall(rf"^{method} .*cats(.) playing(.)", shown, re.M)[0]


def test_each_head_has_a_column(run, folder):
    shown = run("explain", TEXT, "-m", folder, "--heads", "each", "--method", "raw").out
    assert re.search(r"H0 H1 H2 H3 *\n", shown)
    heads = attnflow.explain(TEXT, folder, method="raw", heads="each").values
    rows = re.findall(r"^ *\S+  ([ ░▒▓█]{12})", shown, re.M)
    top = heads[:, 1:6].max()
    for head, values in enumerate(heads):  # one scale for all heads
        for at in range(1, 6):
            assert rows[at][head * 3] == " ░▒▓█"[min(4, int(5 * values[at] / top))]
    assert "The mean of heads" in shown


@pytest.mark.parametrize("background", ["dark", "light", "unknown"])
@pytest.mark.parametrize("method", METHODS)
def test_letters_can_be_read_on_every_level(background, method, monkeypatch):
    from attnflow.views.figures.maps import contrast
    from attnflow.views.terminal import paint

    monkeypatch.setattr(paint, "background", lambda: background)
    for level in np.linspace(paint.UNSEEN, 1, 50):
        style = paint.style(level, method)
        letters, behind = ([part / 255 for part in c.triplet] for c in (style.color, style.bgcolor))
        assert contrast(tuple(letters), behind) >= 4.5


def test_equal_scores_stand_in_the_order_of_the_text_and_are_counted():
    from rich.console import Console

    from attnflow.records import Attribution
    from attnflow.views.terminal.attribution import top_tables
    from attnflow.views.wording.findings import find

    full = [1 - 1e-15, 1.0, 0.2, 1.0, 1.0]
    given = Attribution(tuple("abcde"), np.array([[full]]), (1,), (0,), 1, 0, "flow")
    console = Console(width=40, record=True)
    console.print(top_tables([given], [find(given)], console, 3))
    assert re.findall(r"^ *([a-e]?) *(?:█+|(\d more)) +1\.00", console.export_text(), re.M) == [
        ("a", ""),
        ("b", ""),
        ("d", ""),
        ("", "1 more"),
    ]


def test_explain_prints_the_verdict_the_evidence_and_bars(run):
    shown = run("explain", TEXT, "-m", "verbs", columns=200).out.splitlines()
    verdict = "plural, because of “to”; relevance flow points to “keys”, which matters less."
    assert shown[:2] == [TEXT, f"The number of the verb that comes next: {verdict}"]
    found, blanked = (ask(TEXT, "verbs") for ask in (attnflow.explain, attnflow.blank_out))
    falls = attnflow.blank_out(TEXT, "verbs", signed=True).values
    before = found.prediction.probability
    without = [f"{percent(before - falls[at])} ({points(-falls[at])})" for at in (2, 3)]
    assert shown[2] == (
        f"Without “to”: plural {percent(before)} → {without[1]}, and the answer becomes "
        f"“singular”. Without “keys”: → {without[0]}."
    )
    assert shown[3] == ""
    bars = [line for line in shown if "█" in line and not line.startswith("[CLS]")]
    assert len(bars) == 5
    for line in bars:  # each with what happens without it
        name = line.split()[0]
        assert line.rstrip().endswith(points(-falls[found.position(name)]))
    assert "[CLS] " not in "".join(shown[6:])  # special tokens are in no table
    assert "ρ" not in "".join(shown)
    assert blanked.top(1)[0][0] == "to"


def test_definitions_legends_layers_and_correlations_come_with_verbose(run):
    quiet = run("explain", TEXT, "-m", "verbs", columns=200).out.splitlines()
    shown = run("explain", TEXT, "-m", "verbs", "--verbose", columns=200).out.splitlines()
    assert [line for line in quiet if line not in shown] == []
    more = "\n".join(line for line in shown if line not in quiet)
    found = attnflow.explain(TEXT, "verbs")
    falls = attnflow.blank_out(TEXT, "verbs", signed=True).values
    rho = correlation(spearman(found.values[1:], falls[1:]))  # without CLS
    assert shown[-1] == (
        f"Blanking agrees with relevance flow (ρ {rho}). Blanking puts “to” first, relevance flow "
        "“keys”."
    )
    for part in (
        "→ plural",
        "relevance flow for plural · ",
        "A minus speaks against plural",
        ": how much of",
    ):
        assert part in more
    rolled = run("explain", TEXT, "-m", "verbs", "--method", "rollout", "-v", columns=200).out
    assert "for “[CLS]” at layer" in rolled


def test_signs_have_two_colours_and_a_unit(run):
    asked = ("explain", "The food was not good, but the music was good.", "--top", "12")
    plain = run(*asked, columns=120).out
    assert re.search(r"relevance flow  \+ for positive  − against +logits +without it", plain)
    coloured = run(*asked, columns=120, colour=True).out
    inks = {}
    for line in coloured.splitlines():
        number = re.search(r"([+−])\d+\.\d+", without_colours(line))
        if "█" in line and number:
            inks.setdefault(number[1], set()).add(re.search(r"38;2;\d+;\d+;\d+", line)[0])
    assert {len(each) for each in inks.values()} == {1}
    assert set(inks) == {"+", "−"}
    assert inks["+"] != inks["−"]


@pytest.mark.parametrize("columns", [60, 160])
def test_where_all_speaks_against_the_target_the_largest_is_named_and_listed_first(run, columns):
    asked = ("--target", "positive", "--contrast", "negative")
    shown = run("explain", "The food was not good.", *asked, columns=columns).out
    verdict = "no token speaks for “positive” rather than “negative”, and most against it is “not”."
    assert verdict in " ".join(shown.split())
    assert "pulls" not in shown
    bars = [line for line in shown.splitlines() if re.match(r" *\w+ █", line)]
    assert bars[0].split()[0] == "not"
    assert "−6.9" in bars[0]
    assert max(map(cell_len, shown.splitlines())) <= columns
    agreed = run("explain", "The food was not good.", *asked, "-v", columns=columns).out
    assert "Blanking agrees with relevance flow" in agreed  # whose signs are compared, too


def test_long_words_are_whole_where_there_is_room(run):
    text = "the incomprehensibilities of the cabinet"
    shown = run("explain", text, "-m", "verbs", *NAMED, columns=200).out
    assert shown.count("cabinet") > 5
    assert "…" not in shown


def test_the_model_runs_once_for_all_methods(run, folder, monkeypatch):
    model = attnflow.load_model(folder)
    forward, times = type(model).run, []
    monkeypatch.setattr(
        type(model), "run", lambda *given: times.append(1) or forward(*given), raising=True
    )
    assert run("explain", TEXT, "-m", folder).code == 0
    assert len(times) == 1


def test_strips_of_several_lines_stand_apart(run, folder):
    shown = run("explain", f"{TEXT} " * 4, "-m", folder, *NAMED).out
    assert re.search(r"\n\nrollout  ", shown)
    assert re.search(r"[^\n]\nrollout  ", run("explain", TEXT, "-m", folder, *NAMED).out)


def test_names_of_layers_where_columns_are_narrow():
    from attnflow.views.terminal.pictures import _axis

    names = [f"L{layer}" for layer in range(1, 31)]
    assert _axis(names, 1) == "L1  L5   L10  L15  L20  L25  L30"
    assert _axis(names[:3], 3) == "L1 L2 L3 "


def test_compare_prints_the_agreement_of_methods(run, folder):
    said = json.loads(run("compare", TEXT, "-m", folder, *NAMED, "--json").out)
    first, second = (
        attnflow.explain(TEXT, folder, method=name, layers="all") for name in ("raw", "flow")
    )
    rows = [(first.row(layer)[1:-1], second.row(layer)[1:-1]) for layer in (1, 2, 3)]
    expected = [spearman(*pair) for pair in rows]  # without CLS and SEP
    found = next(row for row in said["agreement"] if row["methods"] == ["raw", "flow"])
    assert found["spearman"] == pytest.approx(expected, abs=1e-6)
    shown = run("compare", TEXT, "-m", folder, *NAMED).out
    numbers = [correlation(value) for value in expected]
    assert re.search(r"raw · flow +" + " +".join(map(re.escape, numbers)), shown)


@pytest.mark.parametrize("columns", [30, 80, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_compare_fits_the_terminal(run, folder, columns, colour):
    shown = without_colours(run("compare", TEXT, "-m", folder, columns=columns, colour=colour).out)
    assert max(map(cell_len, shown.splitlines())) <= columns
    assert "cabinet" in shown
    table, maps = shown.partition("Rank agreement")[2].split("[CLS]", 1)
    for layer in (1, 2, 3):  # at any width the numbers say which layers and methods they are of
        assert re.search(rf"\bL{layer}\b", table)
        assert re.search(rf"\bL{layer}\b", maps)
    tables = sum(line.split()[:1] == ["L1"] or "L1 " in line for line in table.splitlines())
    assert table.count("rollout ") + table.count("rollout\n") >= 3 * tables


@pytest.mark.parametrize("kind", ["graph", "heatmap", "heads"])
def test_figure_writes_svg_with_all_tokens(run, folder, tmp_path, kind):
    file = tmp_path / "figure.svg"
    ran = run("figure", kind, TEXT, "-m", folder, "-o", file)
    assert (ran.code, ran.out) == (0, "")
    texts = re.findall(r">([^<>]+)</text>", file.read_text(encoding="utf-8"))
    names = distinct_labels(TOKENS, 40)
    assert [text for text in texts if text in names] == list(names)
    assert run("figure", kind, TEXT, "-m", folder, "-o", file).code == 2
    assert run("figure", kind, TEXT, "-m", folder, "-o", file, "--force").code == 0


def test_figure_graph_shows_what_carries_the_verdict(run, tmp_path):
    """Without options what the verdict says; the paper's panels where a method is named."""
    file, asked = tmp_path / "one.svg", ("figure", "graph", "The food was not good.")
    assert run(*asked, "-o", file).code == 0
    drawn = file.read_text(encoding="utf-8")
    assert "Routes from not" in drawn
    assert "relevance flow" in drawn
    assert "because of “not”" in drawn
    panels = [word for name in ("raw", "rollout", "flow") for word in ("--method", name)]
    assert run(*asked, *panels, "-o", file, "--force").code == 0
    drawn = file.read_text(encoding="utf-8")
    assert all(title in drawn for title in ("Raw attention", "Attention rollout", "Attention flow"))
    assert "Routes from" not in drawn


def test_figure_graph_with_routes_and_another_position(run, folder, tmp_path):
    file = tmp_path / "graph.svg"
    ran = run("figure", "graph", TEXT, "-m", folder, "-o", file, "-q", "keys", "--to", "cabinet")
    assert ran.code == 0
    assert "Routes from cabinet" in file.read_text(encoding="utf-8")


def test_figure_pronouns_with_a_masked_model(run, masked, tmp_path):
    file = tmp_path / "pronouns.svg"
    text = "the cat on [MASK] mat"
    common = ("figure", "pronouns", text, "-m", masked, "-o", file)
    ran = run(*common, "--candidate", "cat", "--candidate", "mat")
    assert ran.code == 0
    said = attnflow.explain(text, masked, method="raw").prediction.alternatives
    words = [word for word, _ in said[:2]]
    pronouns = ("--pronoun", words[0], "--pronoun", words[1])
    ran = run(*common, "--candidate", "cat", "--candidate", "mat", *pronouns, "--force")
    assert ran.code == 0
    assert "relative probability" in file.read_text(encoding="utf-8")
    ran = run(*common, "--candidate", "cat", "--candidate", "dog", "--force")
    assert ran.code == 2
    assert "candidate='dog'" in ran.err


def test_patches_are_shown_where_they_lie(run, tmp_path):
    import transformers
    from PIL import Image

    import tiny

    tiny.build("vit").save_pretrained(tmp_path / "vit")
    size = {"height": 32, "width": 32}
    transformers.ViTImageProcessor(size=size).save_pretrained(tmp_path / "vit")
    picture = tmp_path / "picture.png"
    pixels = np.random.default_rng(0).integers(0, 255, (48, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(picture)
    shown = run("explain", picture, "-m", tmp_path / "vit", "--method", "raw").out
    grid = re.search(r"raw *\n((?:[· ░▒▓█]{8} *\n){4})", shown)[1].splitlines()
    scores = attnflow.explain(str(picture), tmp_path / "vit", method="raw").patches()
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    assert grid[row][2 * column : 2 * column + 2] == "██"
    row, column = np.unravel_index(scores.argmin(), scores.shape)
    assert grid[row][2 * column : 2 * column + 2] == "· "


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_whose_edges_are_used_is_said_where_only_a_method_is_named(run, folder, command):
    said = "edges: attention (rollout was published with these; --edges names others)"
    for options, expected in (
        (("--method", "rollout"), True),
        (("--method", "rollout", "--edges", "attention"), False),
        ((), False),
    ):
        shown = run(command, TEXT, "-m", folder, *options, "--verbose", columns=200).out
        assert (said in shown) is expected
