"""One file that holds everything and fetches nothing."""

import re
from importlib.resources import files

import pytest

import attnflow
from attnflow.errors import InputError
from attnflow.views.explorer.exploration import exploration_of
from attnflow.views.explorer.render import bundle_script, read_static, to_iframe

MODULES = sorted(
    path.name
    for path in (files("attnflow.views.explorer") / "static").iterdir()
    if path.name.endswith(".js")
)


def test_all_modules_are_in_the_script_and_none_declares_a_name_twice():
    whole = bundle_script()
    for module in MODULES:
        last = read_static(module).rstrip().splitlines()[-1].removeprefix("export ")
        declared = re.findall(
            r"^export (?:const|class|function) (\w+)", read_static(module), re.MULTILINE
        )
        assert last in whole, module
        assert all(
            re.search(rf"^(?:const|class|function) {name}\b", whole, re.M) for name in declared
        )
    assert not re.search(r"^(import|export) ", whole, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:const|let|class|function\*?) (\w+)", whole, re.MULTILINE)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_what_is_exported(module):
    for names, other in re.findall(
        r'^import \{([^}]*)\} from "\./([\w-]+\.js)";$', read_static(module), re.M
    ):
        for name in filter(None, (part.strip() for part in names.split(","))):
            declared = rf"^export (?:async )?(?:const|let|class|function) {name}\b"
            assert re.search(declared, read_static(other), re.M), f"{name} of {other}"
            uses = re.findall(rf"\b{name}\b", read_static(module))
            assert len(uses) > 1, f"{module} imports {name} and does not use it"


def test_the_page_is_whole_and_fetches_nothing(classifier):
    page = exploration_of(attnflow.explain("the keys", classifier, method="flow")).html
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!data:)', page.replace("srcdoc", ""))
    # The namespace of SVG is a name, and nothing is fetched from it.
    assert set(re.findall(r"https?://[\w./-]+", page)) == {"http://www.w3.org/2000/svg"}


def test_nothing_pastes_markup():
    for module in MODULES:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", read_static(module)
        )


def test_a_frame_keeps_to_itself():
    frame = to_iframe('<p title="&">')
    assert 'sandbox="allow-scripts allow-downloads"' in frame
    assert 'srcdoc="&lt;p title=&quot;&amp;&quot;&gt;"' in frame


def test_nothing_is_overwritten_silently(classifier, tmp_path):
    view = exploration_of(attnflow.explain("the keys", classifier, method="flow"))
    path = view.save(tmp_path / "view.html")
    with pytest.raises(InputError, match="exists; choose another name"):
        view.save(path)
    assert view.save(path, overwrite=True) == path


def test_without_script_every_finding_names_its_method(classifier):
    page = attnflow.explore("the keys to the cabinet", classifier).html
    plain = page[page.index("<noscript>") : page.index("</noscript>")]
    for title in ("Relevance flow", "Raw attention", "Attention rollout", "Attention flow"):
        assert f"<li>{title}: " in plain
    assert "<caption>Scores at layer " in plain
