"""Settings of the server and of `quire upload`: addresses, limits, webhooks, cleanup."""

from typing import Annotated, Literal

from msgspec import Struct

from quire.settings.basics import Secret, about


class UploadSettings(Struct, frozen=True, kw_only=True):
    """For `quire upload`. `metadata` and `processing` are JSON, like the options."""

    url: Annotated[str, about("address of the server that uploads go to")] = ""
    key: Annotated[Secret, about("API key for that server; never shown")] = Secret()
    allow_http: Annotated[bool, about("permit sending the key without TLS to another machine")] = False
    uploader: Annotated[str, about("name of the uploader; empty: the name of the user")] = ""
    root_path: Annotated[str, about("path on the server under which files are stored", min_length=1)] = "/"
    parent: Annotated[str, about("identifier of the batch's parent; empty: the origin")] = ""
    metadata: Annotated[str, about("JSON object that goes with the batch")] = ""
    processing: Annotated[str, about("JSON object: what to do with files; empty: everything")] = ""
    parallel: Annotated[int, about("files that are sent at once", ge=1, le=100)] = 5
    parallel_parts: Annotated[int, about("parts of one file that are sent at once", ge=1, le=100)] = 3


class ServeSettings(Struct, frozen=True, kw_only=True):
    host: Annotated[str, about("address that `quire serve` listens on", min_length=1)] = "127.0.0.1"
    port: Annotated[int, about("port that `quire serve` listens on; 0: any free port", ge=0, le=65535)] = 8787
    public_url: Annotated[str, about("public address of the server; empty: as in the request")] = ""
    anonymous: Annotated[
        Literal["loopback", "always", "never"],
        about("when no API key is needed: on loopback addresses, always, never"),
    ] = "loopback"
    anonymous_max_batches: Annotated[
        int, about("most batches that callers without a key have open together; 0: any number", ge=0)
    ] = 1000
    anonymous_max_files: Annotated[
        int, about("most files that callers without a key have staged together; 0: any number", ge=0)
    ] = 10_000_000
    anonymous_max_bytes: Annotated[
        int, about("most bytes that callers without a key have staged together; 0: any number", ge=0)
    ] = 1_099_511_627_776
    secret: Annotated[Secret, about("signs URLs and callbacks; empty: created in the home folder")] = Secret()
    old_secrets: Annotated[
        Secret, about("former secrets, with spaces between: what they have signed stays valid")
    ] = Secret()


class IngestSettings(Struct, frozen=True, kw_only=True):
    max_batch_bytes: Annotated[int, about("largest batch", ge=1)] = 107_374_182_400
    max_file_bytes: Annotated[int, about("largest file", ge=1)] = 5_368_709_120
    max_files: Annotated[int, about("most files of a batch", ge=1, le=10_000_000)] = 1_000_000
    prompt_characters: Annotated[int, about("longest custom prompt", ge=0, le=10**6)] = 60_000
    prompts_characters: Annotated[int, about("all custom prompts together", ge=0, le=10**6)] = 80_000
    allowed_extensions: Annotated[str, about("accepted file extensions, such as `.tif .jpg`; empty: all")] = (
        ""
    )
    url_seconds: Annotated[int, about("how long a signed URL is valid", ge=60, le=604_800)] = 86_400
    verify_cid_bytes: Annotated[
        int, about("files up to this size are read to verify their CID; 0: CIDs are not verified", ge=0)
    ] = 67_108_864
    pipeline: Annotated[str, about("name of the pipeline that uploads go through", min_length=1)] = (
        "preprocess"
    )
    hand_over_to: Annotated[
        str, about("queue that gets a message when preprocessing is done; empty: none")
    ] = "arke-batch-jobs"


class WebhookSettings(Struct, frozen=True, kw_only=True):
    allow_private: Annotated[bool, about("permit webhooks on private and loopback addresses")] = False
    timeout_seconds: Annotated[float, about("longest time for one call", gt=0, le=300)] = 15.0
    max_tries: Annotated[int, about("calls after which a delivery is abandoned", ge=1, le=100)] = 10
    at_once: Annotated[int, about("calls of one process at the same time", ge=1, le=1000)] = 16


class CleanupSettings(Struct, frozen=True, kw_only=True):
    every_seconds: Annotated[float, about("how often the server cleans up; 0: never", ge=0, le=10**7)] = (
        3600.0
    )
    idle_upload_days: Annotated[float, about("abandon uploads that are idle for so long; 0: never", ge=0)] = (
        7.0
    )
    staging_days: Annotated[
        float, about("delete staged files so long after their batch ended; 0: never", ge=0)
    ] = 30.0
    recipe_days: Annotated[
        float,
        about("delete photos and requests of recipe imports so long after they were over; 0: never", ge=0),
    ] = 30.0


class ScrubSettings(Struct, frozen=True, kw_only=True):
    every_days: Annotated[
        float, about("how often `quire serve` reads the whole store and compares it; 0: never", ge=0, le=3650)
    ] = 0.0
    megabytes_per_second: Annotated[
        float, about("how fast a scrub reads; 0: as fast as it goes", ge=0, le=10**6)
    ] = 20.0
    reads_all: Annotated[
        bool, about("read also the objects in a bucket whose stored SHA-256 could be compared instead")
    ] = False


class ArchiveSettings(Struct, frozen=True, kw_only=True):
    enabled: Annotated[bool, about("copy originals to the archive before they are deleted from staging")] = (
        False
    )
