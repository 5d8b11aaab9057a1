"""``strictreply faults --for``: what can go wrong with the tools of a file, OpenAPI among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.cli._openapi import MAX_NAME, OpenAPIError, tools_of_openapi
from strictreply.testing import ScriptServer, read_script
from support.cli.running import TOOLS, Command, Status, tools_file
from support.scripted import http

REFUND: Any = {
    "type": "object",
    "required": ["id", "amount", "reason"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "amount": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "reason": {"$ref": "#/components/schemas/Reason"},
        "note": {"type": "string", "nullable": True, "maxLength": 20, "example": "x"},
    },
}
CATEGORY: Any = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "inner": {"type": "array", "items": {"$ref": "#/components/schemas/Category"}},
    },
    "required": ["name"],
}
ORDER_ID: Any = {
    "name": "order_id",
    "in": "path",
    "required": True,
    "description": "The order",
    "schema": {"type": "integer"},
}


def body_of(schema: object, *, required: bool = True) -> Any:
    """A request body of JSON, beside another form."""
    content = {"text/plain": {}, "application/merge-patch+json": {"schema": schema}}
    return {"required": required, "content": content}


def document(paths: Any = None, *, version: str = "3.0.3") -> Any:
    """An OpenAPI document with an order's refund, and other paths."""
    refund = {
        "operationId": "createRefund",
        "summary": "Refund an order",
        "parameters": [
            {"name": "notify", "in": "query", "schema": {"type": "boolean"}},
            {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
            {"name": "session", "in": "cookie", "schema": {"type": "string"}},
        ],
        "requestBody": body_of({"$ref": "#/components/schemas/Refund"}),
    }
    shared = [{"$ref": "#/components/parameters/OrderId"}]
    own = {"/orders/{order_id}/refunds": {"parameters": shared, "post": refund}}
    return {
        "openapi": version,
        "paths": {**own, **(paths or {})},
        "components": {
            "parameters": {"OrderId": ORDER_ID},
            "schemas": {
                "Refund": REFUND,
                "Reason": {"type": "string", "enum": ["late", "broken"]},
                "Category": CATEGORY,
            },
        },
    }


def parameters_of(found: Any, index: int = 0) -> Any:
    """The schema of the arguments of one of a document's tools."""
    return tools_of_openapi(found)[index]["function"]["parameters"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_an_operation_is_a_tool_of_its_parameters_and_its_body(version: str) -> None:
    """References, the parameters of the path, and a body's members are arguments; what only
    responses have, cookies and the headers that OpenAPI ignores are not.
    """
    (definition,) = tools_of_openapi(document(version=version))
    tool = sr.Tool.from_openai(definition)
    assert (tool.name, tool.description) == ("createRefund", "Refund an order")

    schema = definition["function"]["parameters"]
    assert [*schema["properties"]] == ["order_id", "notify", "amount", "reason", "note"]
    assert schema["required"] == ["order_id", "amount", "reason"]
    assert schema["properties"]["order_id"]["description"] == "The order"

    contract = sr.Contract(tools=[tool])

    def codes(**args: object) -> list[str]:
        call = {"id": "1", "type": "function"}
        function = {"name": tool.name, "arguments": json.dumps(args)}
        verdict = contract.check(
            {"role": "assistant", "tool_calls": [call | {"function": function}]}
        )
        return [issue.code for issue in verdict.issues] if isinstance(verdict, sr.Invalid) else []

    good = {"order_id": 1, "amount": 2.5, "reason": "late", "note": None}
    assert codes(**good) == []
    assert codes(**good | {"amount": 0}) == ["args.exclusive_minimum"]
    assert codes(**good | {"reason": "Late"}) == ["args.enum"]
    assert codes(**good | {"id": 5}) == ["args.extra_key"]


def test_a_schema_that_recurs_is_defined_once() -> None:
    """A reference within its own target ends, and the tool can be declared."""
    schema = parameters_of(document({"/c": {"put": {"requestBody": body_of(CATEGORY)}}}), 1)
    assert [*schema["$defs"]] == ["Category"]
    assert schema["$defs"]["Category"]["properties"]["inner"]["items"] == {
        "$ref": "#/$defs/Category"
    }


@pytest.mark.parametrize(
    ("body", "required"),
    [
        ({"type": "array", "items": {"type": "integer"}}, True),
        ({"oneOf": [REFUND, CATEGORY]}, False),
        ({"type": "object", "properties": {"order_id": {"type": "string"}}}, True),
    ],
)
def test_a_body_that_is_no_plain_object_is_an_argument(body: Any, required: bool) -> None:
    """So is one with a member of a parameter's name: it would hide the parameter."""
    operation = {"parameters": [ORDER_ID], "requestBody": body_of(body, required=required)}
    schema = parameters_of(document({"/x/{order_id}": {"patch": operation}}), 1)
    assert [*schema["properties"]] == ["order_id", "body"]
    assert ("body" in schema["required"]) is required


def test_every_operation_has_a_name_of_its_own() -> None:
    """Names are made of the method and the path, fit every provider, and none comes twice."""
    paths: Any = {f"/pets/{'x' * 80}/{number}": {"get": {}} for number in range(3)}
    more = {"/": {"get": {}}, "/pets/{id}": {"get": {}, "delete": {"operationId": "a b.c"}}}
    names = [tool["function"]["name"] for tool in tools_of_openapi(document({**paths, **more}))]
    assert len({*names}) == len(names) == 7
    assert max(map(len, names)) <= MAX_NAME
    assert names[-3:] == ["get", "get_pets_id", "a_b_c"]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"swagger": "2.0", "paths": {}}, "convert"),
        ({"openapi": "3.1.0"}, "no operation"),
        (document({"/x": {"get": {"parameters": [{"$ref": "#/nowhere"}]}}}), "GET /x: #/nowhere"),
        (document({"/x": {"$ref": "other.json#/x"}}), "bundle"),
        (document({"/x": {"$ref": "#/paths/~1x"}}), "leads to itself"),
    ],
)
def test_a_document_that_cannot_be_read_says_what_to_do(found: Any, told: str) -> None:
    """Another version, no operation, a reference to nothing, to a file or to itself."""
    with pytest.raises(OpenAPIError) as caught:
        tools_of_openapi(found)
    assert told in str(caught.value)


@pytest.fixture
def api(tmp_path: Path) -> str:
    """The file of an OpenAPI document."""
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    return str(path)


def test_the_faults_of_an_api_are_listed_with_their_replies(command: Command, api: str) -> None:
    """Each tool has its faults, with the code and the spoiled arguments."""
    done = command("faults", "--for", api)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    (row,) = [line for line in lines if line.startswith("enum_in_other_case[/reason]")]
    assert "args.enum" in row
    assert '"reason": "LATE"' in row

    told = json.loads(command("faults", "--for", api, "--json").stdout)
    assert [one["tool"] for one in told] == ["createRefund"]
    assert f"createRefund: {len(told[0]['faults'])} faults" in lines[0]
    assert {one["kind"] for one in told[0]["faults"]} == {"args"}
    assert {"/order_id", "/reason", "/note"} <= {one["at"] for one in told[0]["faults"]}


def test_tools_of_any_form_and_kinds_are_listed(command: Command, tmp_path: Path) -> None:
    """A file of definitions is read as by the other commands; ``--kind`` chooses other faults."""
    words = ("faults", "--for", tools_file(tmp_path), "--kind", "tool", "--json")
    (told,) = json.loads(command(*words).stdout)
    assert told["tool"] == "search"
    assert {one["kind"] for one in told["faults"]} == {"tool"}


def test_the_scripts_of_out_can_be_served(command: Command, tmp_path: Path) -> None:
    """Each line of a script is a fault that ``serve-script`` serves to an app with the tool."""
    folder = tmp_path / "scripts" / "new"
    done = command("faults", "--for", tools_file(tmp_path), "--out", str(folder), "--json")
    (told,) = json.loads(done.stdout)
    script = read_script(folder / "search.jsonl")
    assert script == {"steps": [one["step"] for one in told["faults"]], "then": "good"}

    turns = [{"role": "user", "content": "tea"}]
    body = {"model": "m", "messages": turns, "tools": json.loads(TOOLS)}
    with ScriptServer(script=script) as server:
        for _ in script["steps"]:
            came = http.post(f"{server.base_url}/chat/completions", json=body)
            assert came.status_code == 200, came.text
        journal = http.get(f"{server.base_url}/journal").json()

    assert journal["spent"]
    assert [one["served"]["code"] for one in journal["requests"]] == [
        one["code"] for one in told["faults"]
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--for", "missing.json"], "No such file"),
        (["--for", "openapi.yaml"], "JSON"),
        (["--for", "shop"], "module:attribute"),
        (["--for", "API", "--show", "wrong_type"], "--tools"),
        (["--out", "folder"], "--for"),
        (["--for", "BAD"], "convert"),
    ],
)
def test_wrong_usage_says_what_to_do(
    command: Command, tmp_path: Path, api: str, words: list[str], told: str
) -> None:
    """What cannot be read, or not together, ends with what to pass."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"swagger": "2.0"}', encoding="utf-8")
    files = {"API": api, "BAD": str(bad)}
    done = command("faults", *(files.get(word, word) for word in words))
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert told in done.stderr


def test_lint_reads_an_openapi_document(command: Command, api: str) -> None:
    """The other commands that take tools take an OpenAPI document, too."""
    report = json.loads(command("lint", api, "--for", "openai", "--json").stdout)
    assert "createRefund" in json.dumps(report)
