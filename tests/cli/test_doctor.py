"""`attnflow doctor`: what it reports is what is there."""

import sys
import tomllib
from importlib.metadata import version

import torch
from huggingface_hub import constants

from attnflow.cli import doctor
from attnflow.shipped import NAMES


def parse(shown):
    """The sections of a report, from name to value."""
    report, title = {}, ""
    for line in shown.splitlines():
        if line.startswith("  "):
            name, value = line[2:].split("  ", 1)
            report[title][name] = value.strip()
        else:
            title = line
            report[title] = {}
    return report


def test_the_report_is_of_this_machine(run, tmp_path, monkeypatch):
    commit = "0" * 40
    cached = tmp_path / "models--some--one"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    (cached / "blobs").mkdir()
    (cached / "snapshots" / commit).mkdir(parents=True)
    (cached / "snapshots" / commit / "config.json").write_text("x" * 3000)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.utils._cache_manager.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "OPTIONAL", {**doctor.OPTIONAL, "no-such-package": ("it", "it[x]")})
    ran = run("doctor")
    assert ran.code == 0
    report = parse(ran.out)
    assert report["packages"]["torch"] == version("torch")
    assert report["optional"]["ray"] == version("ray")
    assert report["optional"]["no-such-package"] == "not installed; for it: pip install 'it[x]'"
    assert sys.executable in report["program"]["python"]
    assert report["devices"]["models"].endswith("the CPU")
    assert ("flow on a GPU" in report["devices"]) == (not torch.cuda.is_available())
    assert report["folders"]["models of the hub"].startswith(str(tmp_path))
    assert set(report["models"]) == {*NAMES, "some/one"}
    assert report["models"]["some/one"] == "3.0K in the hub's cache"
    assert "is negative, mostly from “not”" in report["trial"]["explain"]


def test_every_extra_of_users_is_reported(pytestconfig):
    project = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text())["project"]
    extras = {*project["optional-dependencies"]} - {"docs", "dev"}
    named = {install for _, install in doctor.OPTIONAL.values()}
    assert {f"attnflow[{extra}]" for extra in extras} <= named


def test_what_does_not_work_is_the_finding(run, monkeypatch):
    def broken(*_):
        msg = "undefined symbol"
        raise OSError(msg)

    monkeypatch.setattr("attnflow.api.explain.explain", broken)
    ran = run("doctor")
    assert ran.code == 1
    assert parse(ran.out)["trial"] == {"explain": "failed: OSError: undefined symbol"}
