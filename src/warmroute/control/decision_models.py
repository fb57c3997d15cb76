"""What GET /admin/decisions answers with."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from warmroute.scheduling.worker import Role
from warmroute.telemetry.decisions import MOST_ROWS, Choice, Decision


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class CandidateView(_Answer):
    """A worker as the policy saw it, before this request was counted."""

    worker: str = Field(description="host:port", examples=["10.0.0.7:8000"])
    matched_tokens: int = Field(description="Tokens of the prompt that it was believed to hold already.")
    pending_prefill_tokens: int = Field(description="Uncached prompt tokens it had been sent, no answer begun.")
    running_requests: int
    score: float | None = Field(description="What the policy compares, the least wins; null: it has no such number.")


class ChoiceView(_Answer):
    """One choice. There are several with pairs of workers, and when workers failed."""

    role: Role
    policy: str
    worker: str = Field(description="The one that was chosen.")
    candidates: int = Field(description="How many there were.")
    rows: list[CandidateView] = Field(description=f"The chosen one, then the best of the others: {MOST_ROWS} at most.")


class DecisionView(_Answer):
    """One request, without anything of its text."""

    request_id: str
    time: float = Field(description="Unix seconds.")
    model: str | None
    prompt_tokens: int
    choices: list[ChoiceView]
    outcome: str = Field(description="served, error, refused, failed, broken or aborted; empty: it runs.")
    status: int
    ttft_seconds: float | None
    duration_seconds: float | None


class Decisions(_Answer):
    """The last decisions that were explained, newest first."""

    decisions: list[DecisionView]


def decisions_view(decisions: Iterable[Decision]) -> Decisions:
    """The answer's content."""
    return Decisions(decisions=[_decision(decision) for decision in decisions])


def _decision(decision: Decision) -> DecisionView:
    return DecisionView(
        request_id=decision.request_id,
        time=decision.time,
        model=decision.model,
        prompt_tokens=decision.prompt_tokens,
        choices=[_choice(choice) for choice in decision.choices],
        outcome=decision.outcome,
        status=decision.status,
        ttft_seconds=decision.ttft_seconds,
        duration_seconds=decision.duration_seconds,
    )


def _choice(choice: Choice) -> ChoiceView:
    return ChoiceView(
        role=choice.role,
        policy=choice.policy,
        worker=choice.worker,
        candidates=choice.candidates,
        rows=[CandidateView.model_validate(row) for row in choice.rows],
    )
