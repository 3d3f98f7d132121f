"""Answers on the command line: prompts from files, the map of parts, and what may be concluded."""

import json

import pytest

import attnflow
import talkers
from attnflow.cli.answers import Asked, make_answers
from attnflow.pipeline.request import Request
from attnflow.views.explorer.generation import generation_document
from attnflow.views.figures.axes import finding_of
from attnflow.views.wording import answers as views
from attnflow.views.wording.answers import conclude

CHAT = [
    {"role": "key", "content": "the cat is old"},
    {"role": "cat", "content": "the red mat is here"},
]


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("talker")
    for part in talkers.llama():
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    (tmp_path / "mat.txt").write_text("red mat\n")
    (tmp_path / "keys.txt").write_text("the old keys")
    return tmp_path


def test_an_answer_is_shown_with_its_prompt(run, talker):
    ran = run("explain", "the keys to the cabinet", "-m", talker, "--generate", 3)
    found = attnflow.explain_answer("the keys to the cabinet", talker, generate=3)
    assert ran.code == 0, ran.err
    assert f"→ {found.answer_text.strip()} … (stopped at 3 tokens)" in ran.out
    assert "without it" not in ran.out
    said = " ".join(" ".join(ran.out.splitlines()[1:3]).split())
    share = found.table()[-1].share
    assert said.startswith("Of the prompt, the answer comes most from “")
    assert f"; {100 * share:.0f} % of all scores are of the answer's own tokens." in said


def test_an_answer_is_labelled_while_it_is_written(talker, capsys):
    asked = Asked({"generate": 3}, None, ())
    prompts = ["the keys to the cabinet"]
    (found,) = make_answers(prompts, None, talker, Request(), asked, live=True)
    label, shown = capsys.readouterr().out.split(": ", 1)
    assert label == "The model writes"
    assert shown.split() == found.answer_text.split()


def test_an_answer_traced_to_the_prompt_has_no_share_of_its_own(run, talker):
    asked = ("explain", "the keys to the cabinet", "-m", talker, "--generate", 3)
    ran = run(*asked, "--through", "prompt")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[1].startswith("The answer comes most from “")
    assert "own tokens" not in ran.out


def test_a_chat_is_shown_by_its_parts(run, talker, files):
    asked = ("--chat", files / "chat.json", "--part", f"mat={files / 'mat.txt'}")
    asked += ("--method", "direct")
    ran = run("explain", *asked, "-m", talker, "--generate", 2, columns=100)
    assert ran.code == 0, ran.err
    found = attnflow.explain_answer(
        CHAT, talker, generate=2, parts={"mat": "red mat"}, deletions=True, method="direct"
    )
    lines = ran.out.splitlines()
    for row in found.table():
        (line,) = [each for each in lines if each.startswith(f"{row.name} ") and "%" in each]
        assert f"{100 * row.share:.0f} %" in line
        if row.drop is not None:
            assert line.endswith(f" {views.odds_of(found).told(row.drop)}")
    said = " ".join(" ".join(lines[1:4]).split())
    assert views.conclude(found) in said
    assert run("explain", *asked, "-m", talker, "--generate", 2, columns=100).out == ran.out


def test_terminal_json_figure_and_page_conclude_the_same(run, talker, files):
    asked = ("explain", "to the cabinet", "--part", f"old={files / 'keys.txt'}", "-m", talker)
    asked += ("--part", f"mat={files / 'mat.txt'}", "--answer", " a cat")
    prompt = {"old": "the old keys", "mat": "red mat", "question": "to the cabinet"}
    found = attnflow.explain_answer(prompt, talker, answer=" a cat")
    verdict = views.judge(found)
    shown = run(*asked, "--html", files / "page.html", columns=300).out
    assert verdict.text in shown.replace("\n", " ")
    said = json.loads(run(*asked, "--json").out)
    assert (said["found"], said["rests_on"]) == (verdict.text, list(verdict.rests_on))
    assert [part["role"] for part in said["parts"][:3]] == ["source", "source", "question"]
    assert finding_of([found]) == generation_document(found)["generation"]["found"] == verdict.text
    assert "rests" in (files / "page.html").read_text(encoding="utf-8")
    told = ("--role", "mat=instructions", "--json")
    assert json.loads(run(*asked, *told).out)["parts"][1]["role"] == "instructions"
    assert "there is no part 'nap'" in run(*asked, "--role", "nap=source").err
    assert "must be a part's name and its role" in run(*asked, "--role", "mat").err


def test_json_holds_what_python_gives(run, talker, files):
    asked = ("explain", "to the cabinet", "--part", f"old={files / 'keys.txt'}", "-m", talker)
    said = json.loads(run(*asked, "--answer", " a cat", "--json", "--method", "flow").out)
    prompt = {"old": "the old keys", "question": "to the cabinet"}
    found = attnflow.explain_answer(prompt, talker, answer=" a cat", method="flow", deletions=True)
    assert said["scores"] == found.matrix().tolist()
    assert [part["drop"] for part in said["parts"]] == [row.drop for row in found.table()]
    assert (said["answer"], said["cut_at"]) == (" a cat", None)
    alone = json.loads(run("explain", "the keys", "-m", talker, "--answer", "a cat", "--json").out)
    assert alone["answer_positions"] == [2, 3]


def test_drawn_answers_are_repeated_by_their_seed(run, talker):
    drawn = ("explain", "the keys", "-m", talker, "--generate", 8, "--temperature", 3, "--json")
    first = json.loads(run(*drawn, "--seed", 4).out)
    assert first["cut_at"] == 8
    assert json.loads(run(*drawn, "--seed", 4).out) == first
    assert first["options"]["sampling"] == {"temperature": 3.0}


def test_an_answer_is_written_as_a_page(run, talker, tmp_path, files):
    page = tmp_path / "answer.html"
    asked = ("explain", "--chat", files / "chat.json", "-m", talker, "--generate", 2)
    ran = run(*asked, "--html", page)
    assert ran.code == 0, ran.err
    assert "attnflow-generation/2" in page.read_text(encoding="utf-8")
    assert "exists" in run(*asked, "--html", page).err


def test_several_methods_explain_one_answer(run, talker, files, tmp_path):
    asked = ("explain", "--chat", files / "chat.json", "-m", talker, "--generate", 4)
    drawn = (*asked, "--temperature", 4)  # without a seed: another answer each time
    several = ("--method", "flow", "--method", "rollout", "--method", "blank-out")
    ran = run(*drawn, *several, "--json", "--save", tmp_path / "all.jsonl")
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["method"] for each in found] == ["flow", "rollout", "blank-out"]
    assert len({each["answer"] for each in found}) == 1
    for one in found:
        alone = attnflow.explain_answer(
            CHAT,
            talker,
            generate=4,
            sampling={"temperature": 4.0},
            seed=one["options"]["seed"],
            method=one["method"],
            deletions=True,
        )
        assert alone.matrix().tolist() == one["scores"]
        assert [row.drop for row in alone.table()] == [part["drop"] for part in one["parts"]]
    assert len(attnflow.Generation.load_all(tmp_path / "all.jsonl")) == 3
    shown = run(*asked, *several).out
    firsts = [line.split()[0].strip(",") for line in shown.splitlines() if line.strip()]
    named = [word for word in firsts if word in several]
    assert named == ["flow", "rollout", "blank-out"]
    page = run(*asked, *several, "--html", tmp_path / "page.html")
    assert "--html shows one answer by one method; there are 3 methods" in page.err


def test_answers_are_saved(run, talker, tmp_path):
    file = tmp_path / "answers.jsonl"
    ran = run("explain", "the keys", "a cat", "-m", talker, "--generate", 2, "--save", file)
    assert ran.code == 0, ran.err
    both = attnflow.Generation.load_all(file)
    assert [one.text for one in both] == ["the keys", "a cat"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--part", "keys.txt", "--generate", "2"), "must be a name and a file"),
        (("--part", "a=nothing.txt", "--generate", "2"), "can't read nothing.txt"),
        (("--chat", "nothing.json"), "can't read nothing.json"),
        (("the keys", "--seed", "3"), "--seed is for answers; give --generate N"),
        (("the keys", "--through", "prompt"), "--through is for answers"),
        (("the keys", "a cat", "--generate", "2", "--html", "a.html"), "--html shows one answer"),
    ],
)
def test_mistakes_are_named(run, talker, arguments, message):
    ran = run("explain", *arguments, "-m", talker)
    assert ran.code == 2
    assert message in ran.err.replace("\n", " ")


def test_a_file_that_is_no_chat_is_named(run, talker, tmp_path):
    for content, message in (
        ("{", "is neither JSON nor JSON lines"),
        ('["hello"]', "must hold messages"),
        ('[{"role": "user", "content": " "}]', "every message is empty"),
    ):
        (tmp_path / "chat.json").write_text(content)
        ran = run("explain", "--chat", tmp_path / "chat.json", "-m", talker)
        assert ran.code == 2
        assert message in ran.err.replace("\n", " ")


def test_a_log_is_explained_record_by_record(run, talker, tmp_path):
    """One on each line: token ids, and messages with an answer; as in Python."""
    model = attnflow.load_model(talker)
    prompt, answer = (model.tokenizer(each)["input_ids"] for each in ("the cat is", "old ."))
    records = [
        {"prompt_token_ids": prompt, "outputs": [{"token_ids": answer}]},
        {"messages": CHAT, "choices": [{"message": {"role": "assistant", "content": "a mat"}}]},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    ran = run("explain", "--chat", tmp_path / "log.jsonl", "-m", talker, "--json")
    shown = [json.loads(line) for line in ran.out.splitlines()]
    for one, each in zip(shown, attnflow.explain_answer(records, model), strict=True):
        assert one["answer"] == each.answer_text
        assert one["log_probabilities"] == pytest.approx(each.log_probabilities.tolist())
        assert one["found"] == conclude(each)
    (tmp_path / "ids.json").write_text(json.dumps(records[0]))
    one = run("explain", "--chat", tmp_path / "ids.json", "-m", talker, "--json")
    assert one.out.splitlines() == ran.out.splitlines()[:1]
    (tmp_path / "log.jsonl").write_text(json.dumps(records[0]) + '\n{"prompt": "a"}\n')
    ran = run("explain", "--chat", tmp_path / "log.jsonl", "-m", talker)
    assert ran.code == 2
    assert "line 2 must hold messages" in " ".join(ran.err.split())


def test_more_than_twelve_parts_are_deleted_on_request(run, talker, tmp_path):
    (tmp_path / "a.txt").write_text(" ! ".join(["old cat"] * 13))
    asked = ("explain", "play", "--part", f"a={tmp_path / 'a.txt'}", "--units", "sentences")
    asked += ("--answer", "old", "-m", talker)
    told = run(*asked).out
    assert "--deletions also deletes each of the 14 parts: about 16 forward passes" in told
    given = json.loads(run(*asked, "--deletions", "--json").out)
    drops = [each["drop"] for each in given["parts"] if each["role"] in ("source", "question")]
    assert len(drops) == 14
    assert None not in drops


def test_a_chat_that_can_t_be_read_is_not_said_to_be_broken(run, talker, tmp_path):
    ran = run("explain", "--chat", tmp_path / "none.json", "-m", talker)
    assert ran.code == 2
    assert "can't read" in ran.err
    assert "not JSON" not in ran.err


def test_a_part_that_is_no_piece_of_the_chat_is_named(run, talker, files):
    (files / "is.txt").write_text("is")
    (files / "blank.txt").write_text(" \n")
    for name, message in (
        ("blank", "blank.txt is empty"),
        ("keys", "does not occur in any message of"),
        ("is", "occurs 2 times in"),
    ):
        asked = ("--chat", files / "chat.json", "--part", f"{name}={files / f'{name}.txt'}")
        ran = run("explain", *asked, "-m", "no-such-model", "--generate", 2)
        assert ran.code == 2
        assert f"--part {name}=" in ran.err
        assert message in ran.err.replace("\n", " ")


def test_a_document_may_be_in_the_chat_twice(run, talker, tmp_path):
    chat = [{"role": "user", "content": "the cat is old , the cat is old ."}]
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    (tmp_path / "cat.txt").write_text("the cat is old\n")
    parts = [f"--part=one={tmp_path / 'cat.txt'}", f"--part=two={tmp_path / 'cat.txt'}"]
    asked = (
        "explain",
        "--chat",
        tmp_path / "chat.json",
        "-m",
        talker,
        "--answer",
        "keys",
        "--json",
    )
    printed = json.loads(run(*asked, *parts).out)
    assert [part["name"] for part in printed["parts"]][:3] == ["user", "one", "two"]


def test_what_scores_are_sums_of_is_told(run, talker):
    asked = ("explain", "the keys to the cabinet", "-m", talker, "--generate", 3)
    ran = run(*asked, "--method", "direct", "--edges", "alti", columns=120)
    assert "scores are sums over layers of how much a token adds to the L1 norm" in ran.out
    assert "sums over layers" not in run(*asked, "--method", "rollout").out


def test_the_figure_of_an_answer(run, talker, files, tmp_path):
    file = tmp_path / "answer.svg"
    asked = ("--chat", files / "chat.json", "--generate", 3, "-m", talker, "-o", file)
    ran = run("figure", "generation", *asked, "--relative")
    assert ran.code == 0, ran.err
    assert ">key<" in file.read_text()
    ran = run("figure", "heatmap", *asked)
    assert "figure heatmap shows no answers" in ran.err.replace("\n", " ")


def test_a_text_and_a_part_do_not_share_a_name(run, talker, files):
    part = ("--part", f"question={files / 'keys.txt'}")
    ran = run("explain", "to the cat", *part, "-m", talker, "--generate", 1)
    assert ran.code != 0
    assert "--part question=…: the text has this name already" in ran.err
    ran = run("explain", *part, "-m", talker, "--generate", 1, "--json")
    assert json.loads(ran.out)["text"] == "the old keys"


def test_a_single_part_is_not_deleted(run, talker, files):
    part = ("--part", f"old={files / 'keys.txt'}")
    ran = run("explain", *part, "-m", talker, "--generate", 2, "--json")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    found = attnflow.explain_answer({"old": "the old keys"}, talker, generate=2)
    assert said["scores"] == found.matrix().tolist()
    assert [row["drop"] for row in said["parts"]] == [None, None]
