"""Language models behind an OpenAI-compatible address."""

from msgspec import Struct


class ModelAddress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`url` is the address up to and including `/v1`. The key is never shown."""

    url: str
    model: str
    key: str = ""
    seconds: float = 60.0
    max_tokens: int = 4096

    def __repr__(self) -> str:
        return f"ModelAddress(url={self.url!r}, model={self.model!r}, key={'set' if self.key else 'not set'})"
