"""Assembles the events of a streamed response into the response.

The order of events:

- ``response.created``, ``queued`` and ``in_progress`` come first. They have the id of the response,
  which is passed on; the output in them is not.
- The events of the items follow (``_responses_found.py`` finds the item of each,
  ``_responses_pieces.py`` reads their contents). Copies add nothing, and the numbers of events may
  have gaps.
- One terminal event ends the response, and its output must agree with the items
  (``_responses_ends.py``).
- Reading continues after it: usage, empty events and copies add nothing, another call counts
  (``_responses_behind.py``), and text, another end or an error is rejected.
- Events that are not judged (thoughts, commentary, tools that the server executes, unknown events)
  may come anywhere, and are passed on unchanged.

Everything that the API itself does not send is a row of
:data:`~strictreply.wires._stream_dialects.RESPONSE_DIALECTS`, which strict reading rejects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._error_forms import error_of
from strictreply.wires._members import peek
from strictreply.wires._responses_behind import contradicts, further_calls, is_of_other
from strictreply.wires._responses_ends import (
    DONE,
    as_terminal,
    is_as_streamed,
    items_made,
    refusals_in,
    says_the_same,
    with_written,
)
from strictreply.wires._responses_found import Handler
from strictreply.wires._responses_items import WITH_ID, is_as_told, labels_of
from strictreply.wires._responses_members import Completing
from strictreply.wires._responses_pieces import StreamedPieces

LIFECYCLE = ("created", "queued", "in_progress")
ENDS = ("completed", "incomplete", "failed")
"""The events of the response itself, by the type after ``response.``."""

_OF_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
_OF_ITEMS = ("output_item.added", "output_item.done")
_OF_JUDGED = (*WITH_ID, "apply_patch_call_", "shell_call_")
"""The prefixes of events that are judged or held, if their item is unknown."""

_NO_OUTPUT: Mapping[str, JSON] = {"output": [], "output_text": ""}
_HOLDERS = frozenset({"response", "item", "part"})
_ERRORS = ("error", "response.error")


class ResponsesAssembly(StreamedPieces):
    """The events of one stream so far, assembled."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self.around: JSONObject = {}
        self.told_id: JSON = None  # the first id of the response
        self._is_begun = False
        self._last_words: JSONObject | None = None  # of an event that may be an error
        self._behind: ResponsesAssembly | None = None  # what came after the end; None for nothing
        self._is_behind_other = False
        self._counts = False
        self._last: int | None = None
        self._told_number = -1
        self._thoughts: list[JSON] = []  # pieces of items that are not done

    def add(self, chunk: JSON) -> None:
        """Add one event."""
        self.delta = {}
        self.passed = None
        self.is_ignored = self.is_beside = self.is_frame = False
        self.current = None
        before = self.fault
        came = chunk
        chunk = self._in_api_form(chunk)
        if self.fault is not before:
            return

        if self.is_done:
            self.is_ignored = True
            self.is_piece = self.is_text_alone = False
            self._add_behind(chunk)
            return

        kind = chunk.get("type") if isinstance(chunk, dict) else None
        self._last_words = None
        if not isinstance(chunk, dict) or not (isinstance(kind, str) or chunk.get("error")):
            self._add_untyped(chunk)
        elif self._is_in_order(chunk):
            self._add_typed(str(kind), chunk)
            self._place(str(kind), chunk)
            self._number(chunk)
            self._pass_on(chunk, came)

        self.is_piece = kind == "response.output_text.delta"
        self._is_begun |= kind == "response.created"
        # an event of the API before it is missing, so it is written anew
        self.is_beside &= self._is_begun
        is_ended = self.is_over or self.is_done
        self.is_text_alone = self._is_text and self._is_begun and not is_ended

    def _in_api_form(self, chunk: JSON) -> JSON:
        """Return an event with the end and the members that the API would write."""
        if not isinstance(chunk, dict) or _HOLDERS.isdisjoint(chunk) or chunk.get("error"):
            return chunk  # the common case

        event = chunk
        if event.get("type") == DONE and isinstance(event.get("response"), dict):
            if not self.reads("response_done"):
                self._refuse("response.completed as its end", DONE)
                return chunk

            event = as_terminal(event)

        completing = Completing()
        whole = completing.event(event)
        for row, place in completing.rows.items():
            if not self.reads(row):
                self._refuse("the value that the API specifies here", event, place)
                return chunk

        return whole

    def _add_untyped(self, event: JSON) -> None:
        if isinstance(event, dict) and self.reads("event_without_type"):
            self.is_ignored = True
            self._last_words = error_of(event)
        else:
            self._refuse("an event with a type", event)

    def _add_typed(self, kind: str, event: JSONObject) -> None:
        handle = self.handlers.get(kind.removeprefix("response."))
        if kind in _ERRORS or event.get("error"):
            told = {name: event[name] for name in event if name != "sequence_number"}
            self.around = self.around | {"error": event.get("error") or told}
            self.is_over = True
        elif handle is not None:
            handle(self, event)
            is_done = kind == "response.output_item.done"
            if is_done and self.current is not None and self.current.kind == "reasoning":
                self._thoughts.clear()  # the items have them
        elif kind.startswith("response.reasoning_") and kind.endswith(".delta"):
            self._thoughts.append(event.get("delta"))

        if self.current is None or self.current.is_judged:
            self._is_text &= not kind.startswith(_OF_CALLS)

    def _place(self, kind: str, event: JSONObject) -> None:
        """Find the item of an event, and whether the event waits until the reply is accepted."""
        if self.is_over or self.is_done or self.is_ignored or self.fault is not None:
            return

        short = kind.removeprefix("response.")
        held = self.current
        if held is None and short not in LIFECYCLE:
            held = self.current = self._about(event)

        self.is_frame = short in (*LIFECYCLE, *_OF_ITEMS)
        if held is None:
            is_thought = short.startswith("reasoning_")
            self.is_beside = not short.startswith(_OF_JUDGED)
            self.is_frame |= self.is_beside and not is_thought
            self._is_text &= self.is_beside  # its item was not announced
            return

        held.seen.add(short)
        self.is_beside = not held.is_judged
        if held.moved and "content_index" in event and self.passed is None:
            self.passed = event | {"content_index": held.part_in(event)}
        index = event.get("output_index")
        id_ = event.get("item_id")
        if type(index) is int and index == held.index and id_ is not None and id_ == held.id:
            return  # the common case

        labels = labels_of(held, event)
        if labels:
            self.passed = (self.passed or event) | labels

    def _number(self, event: JSONObject) -> None:
        """Give a number to an event that has none, or that repeats an earlier number."""
        number = event.get("sequence_number")
        if isinstance(number, int) and not isinstance(number, bool) and number > self._told_number:
            self._told_number = number
        elif not self.is_ignored:
            self._told_number += 1
            self.passed = (self.passed or event) | {"sequence_number": self._told_number}

    def _pass_on(self, event: JSONObject, came: JSON) -> None:
        """Pass an event on in the form that was read, if that differs from the original."""
        if self.passed is None and event is not came:
            self.passed = event

    def _is_in_order(self, event: JSONObject) -> bool:
        """Check the number of an event; a constant number is ignored."""
        number = event.get("sequence_number")
        last = self._last
        if not isinstance(number, int) or isinstance(number, bool):
            return True

        self._counts |= last is not None and number != last
        if last is not None and self._counts and number <= last:
            if self.reads("sequence_number"):
                return True

            self._refuse(f"a sequence_number above {last}", number)
            return False

        self._last = number
        return True

    def _start(self, event: JSONObject) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            if self.reads("event_without_response"):
                self.is_ignored = True
            else:
                self._refuse("an event with a response", event)
            return

        known = self.around.get("id") or response.get("id")
        if known != response.get("id") and not self.reads("id_changes"):
            self._refuse("one response with one id", response.get("id"))
            return

        self.told_id = self.told_id or response.get("id")
        if response.get("id") != self.told_id:
            self.passed = event | {"response": response | {"id": self.told_id}}

        self.around = self.around | response

    def _begin(self, event: JSONObject) -> None:
        """Add an event of the response before its end, without passing on its output.

        The output is not judged yet, and comes again in the events of the items.
        """
        self._start(event)
        told = peek(event, "response")
        empty = {name: empty for name, empty in _NO_OUTPUT.items() if peek(told, name)}
        if empty:
            passed: Any = self.passed or event
            self.passed = passed | {"response": passed["response"] | empty}

    def _end(self, event: JSONObject) -> None:
        self._start(event)
        if self.fault is not None or self.is_ignored:
            return

        response: Any = event["response"]
        self.around = dict(response)
        self.is_done = True
        self.is_over = _ending_of(event) != "completed"
        if any(held.is_again for held in self.items):
            self.reads("arguments_repeated")

        for held in self.items:
            if held.later and not held.is_repeated:
                self._refuse("nothing after its end", "".join(held.later), "/output")
                return

        output = self.around.get("output")
        if not output and self.items:
            self._end_without_output(_ending_of(event))
        elif self.items and "completed" in (self.around.get("status"), _ending_of(event)):
            self._end_with(output)

    def _end_without_output(self, ending: str) -> None:
        is_completed = ending == "completed" == self.around.get("status", ending)
        self.around["output"] = items_made(self.items, is_completed=is_completed)
        if any(held.disagrees or not is_as_told(held, held.whole()) for held in self.items):
            self._refuse("the same items as in its events", self.around["output"], "/output")

    def _end_with(self, output: object) -> None:
        """Check the terminal output against the events before it."""
        written = with_written(self.items, output)
        if written is not None and self.reads("events_disagree"):
            self.around["output"] = output = written

        is_unrefused = self.has_refused and not refusals_in(output)
        if not is_unrefused and is_as_streamed(self.items, output):
            return

        is_alike = not is_unrefused and says_the_same(self.items, output)
        if not is_alike or not self.reads("events_disagree"):
            self._refuse("the same items as in its events", output, "/output")

    def _add_behind(self, event: JSON) -> None:
        """Add an event after the end, which must not contradict it.

        Another response was not requested, and is not read.
        """
        if self._is_behind_other:
            return

        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "response.created" or is_of_other(event, self.around):
            self._is_behind_other = True
            if not self.reads("response_behind_end"):
                self._refuse("one response", event)
        elif contradicts(event, self.around):
            self._refuse("nothing that contradicts its end", event)
        elif not isinstance(event, dict) or not isinstance(kind, str):
            self._add_untyped(event)
        elif kind.startswith("response.") and not self.reads("repeated_behind_end"):
            self._refuse("nothing after its end", event)
        elif kind.removeprefix("response.") not in (*LIFECYCLE, *ENDS):
            self._add_item_behind(event)

    def _add_item_behind(self, event: JSONObject) -> None:
        """Add an event of an item after the end; such items are assembled separately."""
        if self._behind is None:
            self._behind = ResponsesAssembly(self.names)

        behind = self._behind
        size = behind.size
        behind.add(event)
        self.size += behind.size - size
        if behind.fault is not None:
            self._refuse("nothing that contradicts its end", event)

    def end(self, *, is_told: bool = False) -> None:  # noqa: ARG002
        """End the stream: everything after the end of the response is complete.

        If the response has no end, a last message without a type explains why.
        """
        if not self.is_done and self._last_words is not None:
            self.around = self.around | {"error": self._last_words}
        if self.is_done and self._behind is not None:
            self._settle(self._behind)

    def _settle(self, behind: ResponsesAssembly) -> None:
        """Compare what came after the end with it: copies are ignored, further calls count."""
        output = self.around.get("output")
        items = output if isinstance(output, list) else []
        further = further_calls(behind.items, items)
        if further is None or (behind.has_refused and not refusals_in(items)):
            found = [held.whole() for held in behind.items]
            self._refuse("nothing that contradicts its end", found, "/output")
        elif further:
            self.reads("call_behind_end")
            self.around["output"] = [*items, *further]

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make up.

        Without an end, or if not ``is_whole``, it is a response that broke off.
        """
        if self.is_done and is_whole:
            return {"object": "response", **self.around}

        output: list[JSON] = [held.whole() for held in self.items]
        return {"object": "response", **self.around, "output": output, "status": BROKEN_OFF}

    def came(self) -> JSONObject | None:
        """Return the response so far, followed by thoughts that are not in an item yet."""
        if not self.around and not self.items:
            return None

        output: list[JSON] = [held.whole() for held in self.items]
        return {**self.response(), "output": [*output, *self._thoughts]}

    handlers: ClassVar[Mapping[str, Handler]] = {
        **StreamedPieces.handlers,
        **dict.fromkeys(LIFECYCLE, _begin),
        **dict.fromkeys(ENDS, _end),
    }


def _ending_of(event: JSONObject) -> str:
    return str(event.get("type")).removeprefix("response.")
