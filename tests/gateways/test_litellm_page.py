"""docs/litellm.md is true.

Its configuration starts the proxy, its programs run, and its tables name every setting.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from support.gateways.proxy import KEY, LITELLM, started
from support.pages import Page
from support.ports import free_port

pytestmark = pytest.mark.one_lane

PAGE = Page.named("litellm.md")
NEAR = sr.Tool.from_json_schema("refund", {"type": "object", "properties": {}})


def test_the_page_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page's configuration and its program do what the page shows, but for the port."""
    if not LITELLM.exists():
        pytest.skip("LiteLLM is in an environment of its own: make test-litellm")

    config = PAGE.blocks("yaml")[0]
    [program, model, _] = PAGE.programs
    (tmp_path / "config.yaml").write_text(config)

    def in_the_meantime(told: str) -> None:
        """Do what a person does while the model of the page is served."""
        url = told.removeprefix("MODEL_URL=").partition(";")[0]
        for name, value in {
            "MODEL_URL": url,
            "MODEL_KEY": "none",
            "LITELLM_MASTER_KEY": KEY,
        }.items():
            monkeypatch.setenv(name, value)

        with free_port() as port, started(tmp_path, port):
            names: dict[str, Any] = {}
            exec(program.replace("4000", str(port)), names)  # noqa: S102 - the page itself
            names["client"].close()

    # It is the program of the page itself.
    exec(compile(model, "page", "exec", dont_inherit=True), {"input": in_the_meantime})  # noqa: S102
    assert capsys.readouterr().out == PAGE.shown[0]


def guards_module() -> Any:
    """Import the guard; skip where there is no LiteLLM."""
    pytest.importorskip(
        "litellm", reason="LiteLLM is in an environment of its own: make test-litellm"
    )
    return import_module("strictreply.integrations.litellm")


def test_the_module_of_the_page_makes_a_guard() -> None:
    """The module that stands for the YAML holds a guard, which knows its contract."""
    guards = guards_module()
    names: dict[str, object] = {}
    exec(PAGE.programs[2], names)  # noqa: S102 - the page itself
    assert isinstance(names["guard"], guards.Guard)


def test_the_rules_of_the_page_are_read() -> None:
    """The guard takes the configuration of "Observe first", with a rule for each of its lines."""
    guards_module()
    yaml = import_module("yaml")
    settings = import_module("strictreply.integrations.litellm._settings")
    given = yaml.safe_load(PAGE.blocks("yaml")[1])["litellm_settings"]["strictreply"]
    read = settings.settings_of(given)
    assert read.rollout.now().is_beside
    assert [rule.patterns for rule in read.rules] == [
        {"team": "payments"},
        {"key": "ci-*"},
        {"model": "draft-*"},
    ]
    assert settings.settings_of({"mode": False}).rollout.now().is_judged is False


def test_the_table_names_every_setting() -> None:
    """The table of settings has one row for each that the guard reads."""
    settings = import_module("strictreply.integrations.litellm._settings")
    assert {row[0].strip("`") for row in PAGE.table("## Settings")} == settings.SETTINGS


def test_no_class_is_derived_from_a_guard() -> None:
    """LiteLLM would not see the hooks of streams on it: what it let through would go unguarded
    without a word.
    """
    guards = guards_module()
    with pytest.raises(TypeError, match="Guard"):
        type("Mine", (guards.Guard,), {})


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"retries": 3}, "unknown setting"),
        ({"contract": 7}, "contract must be"),
        ({"contract": "nowhere"}, "contract must be"),
        ({"usage_mode": "none"}, "usage_mode must be one of"),
        ({"pass_routes": "/v1/messages"}, "pass_routes must be a list"),
        ({"pass_routes": ["v1/messages"]}, "pass_routes must be a list"),
        ({"policy": 3}, "policy must be"),
        ({"policy": {"max_retrys": 3}}, "litellm_settings.strictreply.policy: .*max_retrys"),
        ({"policy": {"max_retries": -3}}, "litellm_settings.strictreply.policy: .*max_retries"),
        (
            {"contract": "nosuch:thing"},
            "strictreply.contract 'nosuch:thing': No module named 'nosuch'",
        ),
        (
            {"contract": "json:thing"},
            "contract 'json:thing': module 'json' has no attribute 'thing'",
        ),
        ({"contract": "nosuch.json"}, "contract 'nosuch.json': .*No such file"),
        ({"contract": {"desk": "json:thing"}}, "contract 'json:thing': "),
        ({"mode": "watch"}, "mode must be one of enforce, observe, off"),
        ({"mode": True}, "mode must be one of"),
        ({"enforce": 7}, "enforce must be names of tools"),
        ({"observe": 2}, "observe must be the share"),
        (
            {"contract": sr.Contract(tools=[NEAR]), "enforce": ["refnd"]},
            "enforce= names 'refnd', .* did you mean 'refund'",
        ),
        ({"modes": "observe"}, "modes must be a list of rules"),
        ({"modes": {"key": "a"}}, "modes must be a list of rules"),
        ({"modes": ["observe"]}, r"modes\[0\] must be a mapping"),
        ({"modes": [{"mode": "off"}]}, r"modes\[0\] must have a model, a key or a team"),
        ({"modes": [{"key": 7, "mode": "off"}]}, r"modes\[0\] must have a model"),
        ({"modes": [{"key": "a"}]}, r"modes\[0\] must have at least one of mode"),
        ({"modes": [{"keys": "a", "mode": "off"}]}, r"modes\[0\] has no 'keys'"),
        (
            {"modes": [{"key": "a", "mode": "off"}, {"team": "b", "mode": "watch"}]},
            r"modes\[1\]: mode must be one of",
        ),
    ],
)
def test_a_wrong_setting_is_refused(setting: dict[str, object], words: str) -> None:
    """A setting that there is not, or that says nothing, is a ContractError that names it."""
    guards_module()
    settings = import_module("strictreply.integrations.litellm._settings")
    with pytest.raises(sr.ContractError, match=words):
        settings.settings_of(setting)
