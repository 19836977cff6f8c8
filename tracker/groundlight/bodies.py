"""Bodies and parameters of the SDK; known fields are read strictly.

Unknown fields are ignored, because each version of the SDK sends some more.
"""

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from tracker.services import device, fields


class Body(fields.Input):
    """Base of the SDK's bodies."""

    model_config = ConfigDict(extra="ignore")


def _decode(value: object) -> object:
    """Parse the JSON object in *value*, URL-safe Base64."""
    if not isinstance(value, str):
        return value
    try:
        text = base64.urlsafe_b64decode(value.encode() + b"=" * (-len(value) % 4))
        return fields.load_json(text)
    except (ValueError, binascii.Error) as error:
        raise ValueError("it must be URL-safe Base64 of a JSON object") from error


def _read_number(value: object) -> object:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _write_number(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


_Words = Annotated[str, StringConstraints(strip_whitespace=True)]
_Metadata = Annotated[fields.Metadata | None, BeforeValidator(_decode)]
_Patience = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]


class NewDetectorBody(Body):
    """A new detector."""

    name: _Words
    query: _Words
    group_name: fields.KeyName | None = None
    confidence_threshold: fields.Probability | None = None
    patience_time: _Patience | None = None
    metadata: _Metadata = None
    mode: str = device.BINARY
    mode_configuration: dict[str, Any] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        names = {"group_name", "confidence_threshold", "patience_time", "metadata"}
        return self.model_dump(include=names, exclude_none=True)


class DetectorPatch(Body):
    """The fields of a detector to change."""

    name: _Words | None = None
    confidence_threshold: fields.Probability | None = None
    patience_time: _Patience | None = None
    status: Literal["ON", "OFF"] | None = None
    escalation_type: Literal["STANDARD", "NO_HUMAN_LABELING"] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"name"}, exclude_none=True)


class GroupBody(Body):
    """A new group."""

    name: fields.KeyName


class QueryParameters(Body):
    """The query parameters of a new image query."""

    detector_id: str
    metadata: _Metadata = None
    confidence_threshold: Annotated[
        fields.Probability | None, BeforeValidator(_read_number)
    ] = None
    patience_time: Annotated[_Patience | None, BeforeValidator(_read_number)] = None
    image_query_id: str | None = None

    @property
    def said(self) -> dict[str, Any]:
        names = {"confidence_threshold", "patience_time"}
        return self.model_dump(include=names, exclude_none=True)


class Prediction(Body):
    """A prediction in the metadata of an image query."""

    confidence: fields.Probability | None = None
    version: Annotated[fields.VersionName | None, BeforeValidator(_write_number)] = None
    input: Annotated[fields.Key | None, BeforeValidator(_write_number)] = None


class LabelBody(Body):
    """The ground truth of an image query."""

    label: str | int | None
    image_query_id: str
    rois: list[Any] | None = None
