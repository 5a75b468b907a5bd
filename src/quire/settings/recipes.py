"""Settings of recipe import."""

from typing import Annotated, Literal

from msgspec import Struct

from quire.settings.basics import Secret, about


class RecipeSettings(Struct, frozen=True, kw_only=True):
    ocr: Annotated[
        Literal["auto", "service", "here"],
        about(
            "who reads photos: the OCR service on Redis, this server; auto: the service if redis.url is set"
        ),
    ] = "auto"
    ocr_timeout_seconds: Annotated[
        float, about("how long the OCR service may take before an import fails", gt=0, le=604_800)
    ] = 1800.0
    language: Annotated[str, about("language that photos are read in", min_length=2, max_length=35)] = "en"
    token_secret: Annotated[
        Secret, about("secret of the tokens (JWT, HS256) of users; empty: no tokens are accepted")
    ] = Secret()
    allow_private: Annotated[bool, about("permit pages on private and loopback addresses")] = False
    fetch_timeout_seconds: Annotated[float, about("longest time to fetch a page", gt=0, le=300)] = 15.0
    use_model: Annotated[bool, about("ask the model of the setting `model` where rules find no recipe")] = (
        True
    )
    min_characters: Annotated[int, about("least characters of text on photos", ge=1, le=100_000)] = 80
    min_lines: Annotated[int, about("least lines of text on photos", ge=1, le=10_000)] = 4
    max_image_bytes: Annotated[int, about("largest photo", ge=1000, le=10**9)] = 10_485_760
    abandon_minutes: Annotated[
        float, about("abandon complete imports that nobody has saved after this time", gt=0, le=10**7)
    ] = 4320.0
    events_queue: Annotated[str, about("queue that gets a message when an import has ended; empty: none")] = (
        ""
    )
