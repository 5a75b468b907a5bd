"""How pictures are read: which tiers, which languages, which limits. A value that can be written as JSON; the
keys of models are left out of what is shown of it.
"""

from msgspec import Struct, structs

from quire.tools.chat_model import ModelAddress
from quire.tools.refusals import MEGAPIXEL


class ReadingOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """tiers:                names of tiers in the order in which they are asked; empty: all that are there
    language:                `eng`, `en`, `eng+deu` or `en,de`; a picture may come with a language of its own
    tessdata:                folder with the language data of Tesseract; empty: where packages put them
    min_valid_characters:    shorter text is not valid
    min_confidence:          instead of the limit of each engine, from 0 to 1
    max_pixels:              of a picture, judged before it is decoded
    seconds:                 for one picture and one engine, where the engine can be stopped
    local_model:             reads pictures as tier llm_local
    cloud_model:             reads pictures as tier llm_cloud
    judge_model:             is asked whether text is sound; without one, rules decide
    """

    tiers: tuple[str, ...] = ()
    language: str = "eng"
    tessdata: str = ""
    min_valid_characters: int = 3
    min_confidence: float | None = None
    max_pixels: int = 100 * MEGAPIXEL
    seconds: float = 120.0
    local_model: ModelAddress | None = None
    cloud_model: ModelAddress | None = None
    judge_model: ModelAddress | None = None

    def without_models(self) -> "ReadingOptions":
        """For what is stored: models that are asked over the network have keys, which are secrets."""
        return structs.replace(self, local_model=None, cloud_model=None, judge_model=None)
