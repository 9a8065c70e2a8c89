"""What the models say to the shop: today, and after they were trained once more."""

from __future__ import annotations

import json
from typing import Any

from cortex_replay.types import LlmRequest, LlmResponse, TokenUsage, ToolCall
from integration.view.upstream import last_text, reply

__all__ = ["ShopModel"]


class ShopModel:
    """A scripted model that caches prompts, and that is overloaded once.

    Args:
        is_later: It does some things otherwise.
    """

    def __init__(self, *, is_later: bool = False) -> None:
        self._is_later = is_later
        self._seen: set[str] = set()
        self._is_overloaded = True

    def __call__(self, request: LlmRequest) -> LlmResponse | int:  # noqa: C901  # a script
        text, later = last_text(request), self._is_later

        def either(now: str, then: str) -> str:
            return then if later else now

        match text:
            case _ if "arrived broken" in text:
                thought = "The customer wants a refund. I have to see the order first, and when it came."
                call = _call("find_order", number=1042)
                return self._spent(
                    request, "I am sorry to hear that. Let me look at your order.", call, thought=thought
                )
            case _ if '"Desk lamp' in text:
                amount: Any = "39.00" if later else 39.0
                call = _call("refund", number=1042, amount=amount, reason="broken on arrival")
                return self._spent(request, "It came on Thursday, so you get all of it back.", call)
            case _ if "paid back" in text:
                said = either(
                    "Done! You get 39.00 EUR back on your card within three working days. "
                    "You need not send the lamp back.",
                    "All done. 39.00 EUR will be back on your card in three working days. Keep the lamp.",
                )
                return self._spent(request, said)
            case _ if "will the other one" in text:
                return self._spent(request, "I will see where it is.", _call("find_order", number=1043))
            case _ if '"Floor lamp' in text:
                return self._spent(
                    request,
                    "It left Berlin this morning. Parcels need two days, so it should come on Thursday.",
                )
            case _ if "Where is my parcel" in text:
                query = either("parcel 1042", "parcel 1042 Berlin")
                return reply(request, "", _call("search_parcels", query=query, limit=5))
            case _ if '"place"' in text:
                return reply(request, "Your parcel is in Berlin. It should arrive on Thursday.")
            case _ if "waiting for two weeks" in text:
                priority: Any = "high" if later else 1
                tags = ["late"] if later else ["late", "angry"]
                return reply(request, json.dumps({"priority": priority, "team": "shipping", "tags": tags}))
            case _ if "Greet a customer" in text:
                return reply(
                    request,
                    either(
                        "Welcome back! It is good to see you again. What can we light up for you today?",
                        "Welcome back! How good to see you again. Which room shall we light up today?",
                    ),
                )
            case _ if "discount of 90" in text:
                refused = reply(
                    request, "I cannot write a code that was not approved.", reason="content_filter"
                )
                return refused if later else reply(request, "LAMP-90-TODAY")
            case _ if "open on Saturdays" in text and self._is_overloaded:
                self._is_overloaded = False
                return 529
            case _ if "open on Saturdays" in text:
                return reply(
                    request, either("We are open from 10 to 16.", "On Saturdays, we are open from 10 to 16.")
                )
            case _ if "voucher" in text:
                return reply(request, "Yes, type its number at the end of your order.")
            case _:
                return reply(
                    request, "A customer got 39 EUR back for a broken lamp, and waits for another one."
                )

    def _spent(
        self, request: LlmRequest, text: str, *calls: ToolCall, thought: str | None = None
    ) -> LlmResponse:
        """An answer whose system prompt and tools were cached, if they were asked with before."""
        start = json.dumps([request.system, [*map(str, request.tools)]])
        prefix = len(start) // 4 + 1900
        rest = sum(len(str(message.content)) for message in request.messages) // 4
        is_known = start in self._seen
        self._seen.add(start)
        usage = TokenUsage(
            prefix + rest, len(text) // 4 + 12, prefix if is_known else 0, 0 if is_known else prefix
        )
        return reply(request, text, *calls, thought=thought, usage=usage)


def _call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{name}_{arguments.get('number', 0)}", name=name, arguments=arguments)
