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


def alone(item: Any) -> Any:
    """A document with one path."""
    return {"openapi": "3.1.0", "paths": {"/x": item}}


def unexpected(words: str) -> None:
    """Fail, because every operation of the document can be read."""
    raise AssertionError(words)


def parameters_of(found: Any, index: int = 0) -> Any:
    """The schema of the arguments of one of a document's tools."""
    return tools_of_openapi(found, unexpected)[index]["function"]["parameters"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_an_operation_is_a_tool_of_its_parameters_and_its_body(version: str) -> None:
    """References, the parameters of the path, and a body's members are arguments; what only
    responses have, cookies and the headers that OpenAPI ignores are not.
    """
    (definition,) = tools_of_openapi(document(version=version), unexpected)
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
    other: Any = {"/p\u00e4": {"get": {"operationId": "\u53d6\u5f97"}}, "/\u00e4": {"put": {}}}
    found = document({**paths, **more, **other})
    names = [tool["function"]["name"] for tool in tools_of_openapi(found, unexpected)]
    assert len({*names}) == len(names) == 9
    assert max(map(len, names)) <= MAX_NAME
    assert names[-5:] == ["get", "get_pets_id", "a_b_c", "get_p", "put"]


def test_parameters_of_one_name_are_different_arguments() -> None:
    """In the path, the query and a header; and a body beside a parameter that is called body."""
    places = ("path", "query", "header")
    named: list[Any] = [{"name": "id", "in": where, "schema": {}} for where in places]
    taken = {"name": "body", "in": "query", "schema": {"type": "boolean"}}
    body = body_of({"type": "array", "items": {"type": "integer"}})
    operation = {"parameters": [*named, taken], "requestBody": body}
    schema = parameters_of(document({"/x/{id}": {"put": operation}}), 1)
    assert [*schema["properties"]] == ["id", "query_id", "header_id", "body", "body_2"]
    assert schema["properties"]["body"]["type"] == "boolean"
    assert schema["properties"]["body_2"]["type"] == "array"
    assert schema["required"] == ["id", "body_2"]


def test_references_are_followed_wherever_they_are() -> None:
    """In a schema of encoded content, and percent-encoded in their own text."""
    found = document()
    found["components"]["schemas"]["a b/c"] = {"type": "string", "enum": ["x"]}
    reference = {"$ref": "#/components/schemas/a%20b~1c"}
    found["paths"]["/x"] = {
        "post": {
            "parameters": [
                {"name": "kind", "in": "query", "schema": reference},
                {
                    "name": "text",
                    "in": "query",
                    "schema": {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": {"$ref": "#/components/schemas/Reason"},
                    },
                },
            ]
        }
    }
    schema = parameters_of(found, 1)
    (name,) = [name for name, one in schema["$defs"].items() if one.get("enum") == ["x"]]
    assert schema["properties"]["kind"] == {"$ref": f"#/$defs/{name}"}
    assert schema["properties"]["text"]["contentSchema"] == {"$ref": "#/$defs/Reason"}
    assert schema["$defs"]["Reason"]["enum"] == ["late", "broken"]


def test_null_is_no_parameter() -> None:
    """Of a path, an operation or a schema whose lists are null, nothing is an argument."""
    body = body_of({"type": "object", "properties": {"a": {"type": "integer"}}, "required": None})
    operation = {"parameters": None, "requestBody": body, "summary": None}
    schema = parameters_of(document({"/x": {"parameters": None, "post": operation}}), 1)
    assert [*schema["properties"]] == ["a"]
    assert schema["required"] == []


def nested(levels: int) -> Any:
    """A schema within a schema, and so on."""
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


BAD_OPERATIONS: Any = {
    "nowhere": {"parameters": [{"$ref": "#/nowhere"}]},
    "not a list": {"parameters": {"name": "x"}},
    "no name": {"parameters": [{"in": "query", "schema": {}}]},
    "a name that is no text": {"parameters": [{"in": "query", "name": ["a"], "schema": {}}]},
    "a long index": {"parameters": [{"$ref": "#/servers/" + "9" * 5_000}]},
    "a digit of another script": {"parameters": [{"$ref": "#/servers/\u0660"}]},
    "an anchor": {"parameters": [{"$ref": "#name"}]},
    "deep": {"requestBody": body_of(nested(2_000))},
    "no schema": {"parameters": [{"name": "x", "in": "query", "schema": {"type": "strin"}}]},
    "not an object": "x",
}


@pytest.mark.parametrize("operation", BAD_OPERATIONS.values(), ids=BAD_OPERATIONS)
def test_an_operation_that_cannot_be_read_is_left_out(operation: Any) -> None:
    """The others are tools, and the one is named with the reason."""
    told: list[str] = []
    tools = tools_of_openapi(document({"/x": {"get": operation}}), told.append)
    assert [tool["function"]["name"] for tool in tools] == ["createRefund"]
    assert [words.partition(": ")[0] for words in told] == ["GET /x"]


BAD_PATHS: dict[str, Any] = {
    "in another file": {"$ref": "other.json#/x"},
    "a reference to a text": {"$ref": "#/openapi"},
    "a list": [],
}


@pytest.mark.parametrize("item", BAD_PATHS.values(), ids=BAD_PATHS)
def test_a_path_that_cannot_be_read_is_left_out(item: Any) -> None:
    """It is named with the reason; the other paths are read."""
    told: list[str] = []
    tools = tools_of_openapi(document({"/x": item}), told.append)
    assert len(tools) == 1
    assert [words.partition(": ")[0] for words in told] == ["/x"]


def test_a_method_in_capitals_is_left_out() -> None:
    """It is named with the reason; the other methods of the path are tools."""
    told: list[str] = []
    item: Any = {"get": {"operationId": "read"}, "POST": {"operationId": "write"}}
    tools = tools_of_openapi(alone(item), told.append)
    assert [tool["function"]["name"] for tool in tools] == ["read"]
    assert [words.partition(": ")[0] for words in told] == ["POST /x"]


def test_a_body_of_any_value_is_an_argument() -> None:
    """The schema ``true`` is one of JSON Schema, also behind a reference."""
    body = body_of({"$ref": "#/components/schemas/Any"})
    one = {**alone({"post": {"requestBody": body}}), "components": {"schemas": {"Any": True}}}
    [tool] = tools_of_openapi(one, unexpected)
    assert list(tool["function"]["parameters"]["properties"]) == ["body"]


def test_an_extension_among_the_paths_is_no_path() -> None:
    """A member ``x-…`` is anything of its author, even if it looks like a path."""
    one = document({})
    extended = document({"x-internal": {"get": {"operationId": "hidden"}}})
    assert tools_of_openapi(extended, unexpected) == tools_of_openapi(one, unexpected)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"swagger": "2.0", "paths": {}}, "convert"),
        ({"openapi": "3.1.0"}, "no operation"),
        (alone({"get": {"parameters": [{"$ref": "#/nowhere"}]}}), "GET /x: #/nowhere"),
        (alone({"$ref": "other.json#/x"}), "bundle"),
        (alone({"$ref": "#/paths/~1x"}), "leads to itself"),
    ],
)
def test_a_document_that_cannot_be_read_says_what_to_do(found: Any, told: str) -> None:
    """Another version, no operation, a reference to nothing, to a file or to itself."""
    with pytest.raises(OpenAPIError) as caught:
        tools_of_openapi(found, unexpected)
    assert told in str(caught.value)


def test_what_is_left_out_of_a_document_is_told(command: Command, tmp_path: Path) -> None:
    """The command lists the faults of the other operations, and names the one on stderr."""
    path = tmp_path / "openapi.json"
    found = document({"/x": {"get": BAD_OPERATIONS["nowhere"]}})
    path.write_text(json.dumps(found), encoding="utf-8")
    done = command("faults", "--for", str(path), "--json")
    assert done.exit_code == 0
    assert [one["tool"] for one in json.loads(done.stdout)] == ["createRefund"]
    (line,) = done.stderr.splitlines()
    assert "GET /x: #/nowhere" in line


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
