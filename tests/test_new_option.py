"""An option that is declared in the table alone works in every way in which options are given."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TEXT = "the keys to the cabinet"
CODE = """
import json, sys
import loud
loud.declare()
import attnflow
from starlette.testclient import TestClient
from attnflow.cli.app import run
from attnflow.views.explorer.server.app import make_app

text, folder = sys.argv[1:]
how = {"method": "rollout", "edges": "attention"}
found = {
    "call": attnflow.explain(text, "verbs", volume=5, **how).options["volume"],
    "left out": "volume" in attnflow.explain(text, "verbs", **how).options,
    "help": "volume: How loud the result is." in attnflow.explain.__doc__,
}
made = attnflow.run([text], f"{folder}/run", "verbs", volume=6, methods="rollout")
found["run"] = [each.options["volume"] for each in made]
try:
    attnflow.run([text], f"{folder}/run", "verbs", volume=7, methods="rollout")
except attnflow.errors.InputError as error:
    found["another run"] = str(error)
flags = ["-m", "verbs", "--method", "rollout", "--edges", "attention", "--volume"]
found["codes"] = [
    run(["explain", text, *flags, "8", "--save", f"{folder}/saved.jsonl"]),
    run(["explain", text, *flags, "0"]),
]
(saved,) = attnflow.Attribution.load_all(f"{folder}/saved.jsonl")
found["command"] = saved.options["volume"]
client = TestClient(make_app({"verbs": attnflow.load_model("verbs")}), "http://localhost")
(found["described"],) = [
    each for each in client.get("/api/models").json()["options"] if each["name"] == "volume"
]
asked = {"text": text, "edges": "attention"}
found["server"] = [
    client.post("/api/explain", json={**asked, "volume": given}).status_code for given in (9, "9")
]
with open(f"{folder}/found.json", "w") as file:
    json.dump(found, file)
"""


def start(arguments, **how):
    """A Python of its own, in which the table can be read anew."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen([sys.executable, *arguments], env=env, **how)


def test_a_declared_option_is_a_keyword_a_flag_recorded_by_runs_and_taken_by_the_server(tmp_path):
    done = start(["-c", CODE, TEXT, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    _, errors = done.communicate(timeout=300)
    assert done.returncode == 0, errors
    found = json.loads((tmp_path / "found.json").read_text())
    described = found.pop("described")
    assert "volume" in found.pop("another run")
    assert found == {
        "call": 5,
        "left out": False,
        "help": True,
        "run": [6],
        "codes": [0, 2],
        "command": 8,
        "server": [200, 422],
    }
    assert (described["kind"], described["default"]) == ("number", 3)
    assert described["help"] == "How loud the result is."
