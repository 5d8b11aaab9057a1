"""Twenty tools as users declare them; together they state every rule that a schema can state."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field
from typing_extensions import TypedDict

import strictreply as sr

DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> list[str]:
    """Search the web."""
    return [query] * limit


@sr.tool
def now() -> str:
    """Return the time."""
    return "12:00"


class Unit(enum.Enum):
    """A unit of temperature."""

    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@dataclass
class Position:
    """A place on a map."""

    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-180, lt=180)]


async def forecast(
    position: Position, unit: Unit = Unit.CELSIUS, hourly: bool = False
) -> dict[str, float]:
    """Forecast the weather at a place."""
    return {f"{position.latitude} {unit} {hourly}": 21.0}


class Refund(BaseModel):
    """Pay an order back."""

    order: int
    reason: Literal["late", "broken"]
    amount: Annotated[float, Field(gt=0, multiple_of=0.5)] | None = None


class Guest(BaseModel):
    """Somebody who stays."""

    full_name: Annotated[str, Field(min_length=2, max_length=40)]
    born: date | None = None


class Booking(BaseModel):
    """Book a room."""

    hotel: UUID
    arrival: date
    paid_at: AwareDatetime | None = None
    reminder: datetime | None = None
    guests: Annotated[list[Guest], Field(min_length=1, max_length=4)]
    extras: set[Literal["breakfast", "parking"]] = set()


class Circle(BaseModel):
    """A circle."""

    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0)]


class Square(BaseModel):
    """A square."""

    kind: Literal["square"]
    side: Annotated[float, Field(gt=0)]
    rounded: bool = False


class Draw(BaseModel):
    """Draw a shape."""

    shape: Annotated[Circle | Square, Field(discriminator="kind")]
    colour: Annotated[str, Field(pattern="^#[0-9a-f]{6}$")] = "#000000"


class Message(TypedDict, total=False):
    """Send a message."""

    to: list[str]
    body: str
    silent: bool


WEATHER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Current weather in a city.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1},
                "unit": {"type": ["string", "null"], "enum": ["celsius", "fahrenheit", None]},
                "days": {"enum": [1, 3, 7]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}

READ_FILE: Mapping[str, Any] = {
    "name": "read_file",
    "description": "Read a file, or a part of it.",
    "inputSchema": {
        "$schema": DRAFT_07,
        "type": "object",
        "properties": {
            "path": {"type": "string", "maxLength": 200},
            "head": {"type": "integer", "minimum": 0},
            "tail": {"type": "integer", "exclusiveMinimum": 0},
        },
        "required": ["path"],
        "dependencies": {"tail": ["head"]},
    },
}

ADDRESSES = sr.Tool.from_json_schema(
    "addresses",
    {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "clock": {"type": "string", "format": "time"},
            "moment": {"type": "string", "format": "date-time"},
            "length": {"type": "string", "format": "duration"},
            "mail": {"type": "string", "format": "email"},
            "host": {"type": "string", "format": "hostname"},
            "v4": {"type": "string", "format": "ipv4"},
            "v6": {"type": "string", "format": "ipv6"},
            "page": {"type": "string", "format": "uri"},
            "link": {"type": "string", "format": "uri-reference"},
            "id": {"type": "string", "format": "uuid"},
            "place": {"type": "string", "format": "json-pointer"},
        },
        "required": ["day"],
    },
    "Check addresses and times.",
)

TREE = sr.Tool.from_json_schema(
    "tree",
    {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["label"],
            }
        },
    },
    "Draw a tree.",
)

MATRIX = sr.Tool.from_json_schema(
    "matrix",
    {
        "type": "object",
        "properties": {
            "cells": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 3,
                    "items": {"type": "array", "items": {"type": "number", "maximum": 100}},
                },
            }
        },
        "required": ["cells"],
    },
    "Multiply a matrix.",
)

DELIVER = sr.Tool.from_json_schema(
    "deliver",
    {
        "type": "object",
        "properties": {
            "country": {"type": "string", "enum": ["DE", "FR", "US"]},
            "zip": {"type": "string"},
        },
        "required": ["country"],
        "if": {"properties": {"country": {"const": "US"}}, "required": ["country"]},
        "then": {"required": ["zip"], "properties": {"zip": {"pattern": "^[0-9]{5}$"}}},
        "else": {"properties": {"zip": {"maxLength": 8}}},
    },
    "Deliver a parcel.",
)

PAY = sr.Tool.from_json_schema(
    "pay",
    {
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10_000},
            "card": {"type": "string", "pattern": "^[0-9]{4}$"},
            "holder": {"type": "string"},
            "transfer": {"type": "boolean"},
            "iban": {"type": "string", "minLength": 15},
        },
        "required": ["amount"],
        "dependentRequired": {"card": ["holder"]},
        "dependentSchemas": {"transfer": {"required": ["iban"]}},
    },
    "Pay.",
)

TRANSLATE = sr.Tool.from_json_schema(
    "translate",
    {
        "type": "object",
        "properties": {
            "texts": {
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "propertyNames": {"pattern": "^[a-z_]+$", "maxLength": 20},
                "additionalProperties": {"type": "string"},
                "minProperties": 1,
                "maxProperties": 3,
            },
            "labels": {
                "type": "object",
                "patternProperties": {"^[a-z]{2}-[A-Z]{2}$": {"type": "string"}},
                "additionalProperties": False,
            },
            "flags": {"type": "object", "additionalProperties": False},
        },
        "required": ["texts"],
    },
    "Translate texts.",
)

THERMOSTAT = sr.Tool.from_json_schema(
    "thermostat",
    {
        "type": "object",
        "properties": {
            "degrees": {"type": "number", "minimum": 5, "maximum": 30, "multipleOf": 0.5},
            "fan": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 6},
            "mode": {"const": "heat"},
            "name": {"type": "string", "maxLength": 10**9},
        },
        "required": ["degrees", "mode"],
    },
    "Set the temperature.",
)

PLOT = sr.Tool.from_json_schema(
    "plot",
    {
        "type": "object",
        "properties": {
            "origin": {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "number"}],
                "items": False,
                "minItems": 2,
            },
            "marks": {
                "type": "array",
                "items": {"type": "integer"},
                "contains": {"type": "integer", "minimum": 100},
                "minContains": 1,
                "maxContains": 2,
                "uniqueItems": True,
            },
            "series": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                    "required": ["x", "y"],
                },
                "uniqueItems": True,
                "maxItems": 50,
            },
        },
        "required": ["origin"],
    },
    "Plot points.",
)

FILTER = sr.Tool.from_json_schema(
    "filter",
    {
        "type": "object",
        "properties": {
            "range": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"from": {"type": "integer"}},
                        "required": ["from"],
                    },
                    {
                        "type": "object",
                        "properties": {"to": {"type": "integer"}},
                        "required": ["to"],
                    },
                ]
            },
            "step": {
                "oneOf": [{"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 5}]
            },
            "field": {"type": "string", "not": {"enum": ["password", "secret"]}},
            "value": {"type": ["string", "integer"], "minLength": 2, "maximum": 9},
        },
        "required": ["field"],
    },
    "Filter rows.",
)

UPLOAD = sr.Tool.from_json_schema(
    "upload",
    {
        "$schema": DRAFT_07,
        "type": "object",
        "properties": {
            "body": {"type": "string", "contentEncoding": "base64"},
            "meta": {"type": "string", "contentMediaType": "application/json"},
            "legacy": False,
        },
        "required": ["body"],
        "additionalProperties": False,
    },
    "Upload a file.",
    extra="schema",
)

ORDER = sr.Tool.from_json_schema(
    "order",
    {
        "type": "object",
        "allOf": [
            {"$ref": "#/$defs/priced"},
            {
                "properties": {
                    "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1}
                }
            },
        ],
        "required": ["items", "currency"],
        "$defs": {
            "priced": {"properties": {"currency": {"type": "string", "enum": ["EUR", "USD"]}}},
            "item": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1},
                },
                "required": ["sku"],
                "not": {"required": ["sku", "gift"]},
            },
        },
    },
    "Order goods.",
)

SAMPLE: tuple[Any, ...] = (
    search,
    now,
    forecast,
    Refund,
    Booking,
    Draw,
    Message,
    WEATHER,
    READ_FILE,
    ADDRESSES,
    TREE,
    MATRIX,
    DELIVER,
    PAY,
    TRANSLATE,
    THERMOSTAT,
    PLOT,
    FILTER,
    UPLOAD,
    ORDER,
)
"""Functions, dataclass arguments, pydantic models, a TypedDict, OpenAI and MCP definitions, JSON
Schemas.
"""
