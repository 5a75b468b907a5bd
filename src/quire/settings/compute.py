"""Settings of compute: where phases run."""

from typing import Annotated, Literal

from msgspec import Struct

from quire.settings.basics import Secret, about

Where = Literal["local", "process", "fly", "ray", "queue"]


class ComputeSettings(Struct, frozen=True, kw_only=True):
    """Where the phases run. Processes and machines need `quire serve`, which receives their callbacks."""

    pdf: Annotated[Literal["local", "ray", "queue"], about("where PDFs are split")] = "local"
    tiff: Annotated[Where, about("where TIFFs are converted")] = "local"
    image: Annotated[Where, about("where pictures are worked on")] = "local"
    processes: Annotated[int, about("processes at once; 0 is one per usable core", ge=0, le=1024)] = 0
    command: Annotated[str, about("command of such a process; empty: quire task run")] = ""
    start_seconds: Annotated[float, about("what a start may take beyond a timeout", ge=0, le=3600)] = 30.0
    grace_seconds: Annotated[
        float, about("how long to wait for the callback of a machine that has ended", ge=0, le=3600)
    ] = 2.0
    look_seconds: Annotated[float, about("how often what is out is looked after", gt=0, le=3600)] = 2.0
    queue: Annotated[str, about("queue in which tasks wait for workers without a database", min_length=1)] = (
        "quire-tasks"
    )
    max_out: Annotated[int, about("most tasks in that queue, waiting or running", ge=1, le=100_000)] = 1000
    wait_seconds: Annotated[
        float, about("longest wait for the start of a task in that queue", ge=1, le=86_400)
    ] = 3600.0
    answers: Annotated[str, about("queue of answers to tasks that wait for them", min_length=1)] = (
        "quire-answers"
    )
    registry_url: Annotated[
        str, about("another asset registry for workers that call back; empty: this server")
    ] = ""


class WorkerKeySettings(Struct, frozen=True, kw_only=True):
    """A key pair of the store for workers that cannot use presigned URLs, created for them alone; not set:
    they get none.
    """

    access_key_id: Annotated[Secret, about("name of an access key for workers; empty: none")] = Secret()
    secret_access_key: Annotated[Secret, about("secret half of that key; never shown")] = Secret()
    account_id: Annotated[str, about("account id from which workers derive the host of the store")] = ""
    archive_bucket: Annotated[str, about("bucket to which workers copy originals; empty: none")] = ""
    endpoint: Annotated[str, about("URL of the S3 server for workers; empty: as for uploaders")] = ""

    @property
    def handed_out(self) -> bool:
        return bool(self.access_key_id)


class LocalSettings(Struct, frozen=True, kw_only=True):
    """The worker processes on this machine."""

    memory_mb: Annotated[
        int, about("memory of all workers together; 0: three quarters of the machine's", ge=0, le=1 << 30)
    ] = 0
    price_per_second: Annotated[float, about("what a worker costs in a second", ge=0, le=1000)] = 0.0


class FlySettings(Struct, frozen=True, kw_only=True):
    api: Annotated[str, about("address of the Machines API", min_length=1)] = "https://api.machines.dev"
    token: Annotated[Secret, about("token for the Machines API; never shown")] = Secret()
    tiff_app: Annotated[str, about("app whose machines convert TIFFs")] = ""
    tiff_worker: Annotated[str, about("container image of these machines")] = ""
    tiff_memory_mb: Annotated[int, about("memory of such a machine", ge=256, le=1 << 20)] = 1024
    image_app: Annotated[str, about("app whose machines work on pictures")] = ""
    image_worker: Annotated[str, about("container image of these machines")] = ""
    image_memory_mb: Annotated[int, about("memory of such a machine", ge=256, le=1 << 20)] = 2048
    step_app: Annotated[str, about("app whose machines run steps of your own pipelines")] = ""
    step_worker: Annotated[str, about("container image of these machines, with the pipelines in it")] = ""
    region: Annotated[str, about("where machines are started", min_length=1)] = "ord"
    cpus: Annotated[int, about("processors of a machine", ge=1, le=128)] = 2
    cpu_kind: Annotated[Literal["shared", "performance"], about("kind of processors")] = "shared"
    at_once: Annotated[int, about("machines at the same time", ge=1, le=100_000)] = 100
    per_second: Annotated[float, about("machines that are asked for in a second", gt=0, le=1000)] = 1.0
    price_per_second: Annotated[float, about("what a machine costs in a second", ge=0, le=1000)] = 0.0


class RaySettings(Struct, frozen=True, kw_only=True):
    address: Annotated[str, about("host:port of the Ray cluster; empty starts one on this machine")] = ""
    workers: Annotated[int, about("workers on the cluster; 0 is as many as fit", ge=0, le=100_000)] = 0
    cpus: Annotated[float, about("processors that Ray sets aside for a worker", gt=0, le=1024)] = 1.0
    memory_mb: Annotated[int, about("memory that Ray sets aside for a worker", ge=0, le=1 << 20)] = 0
    max_out: Annotated[int, about("tasks dispatched at once; 0: enough to keep the workers busy", ge=0)] = 0
    price_per_second: Annotated[float, about("what a worker costs in a second", ge=0, le=1000)] = 0.0
