"""Every command of `quire`: its name, its line of help, and the function behind it.

Imports none of them. A test compares each line with the first line of the function's docstring.
"""

from collections.abc import Mapping

from quire.cli.lazy import CommandEntry, Entry, GroupEntry

_BATCH = "quire.cli.batch.commands"
_BATCH_CONTROL = "quire.cli.batch.control"
_PIPELINE = "quire.cli.pipeline.commands"
_QUEUE = "quire.cli.queue.commands"
_DEAD = "quire.cli.queue.dead_letters"
_KEY = "quire.cli.server.key"
_WEBHOOK = "quire.cli.server.webhook"
_WORKER = "quire.cli.worker.commands"
_RUN_THE_SCHEDULER = "Run the scheduler, which starts, moves and ends batches."

BATCH_COMMANDS = {
    "list": CommandEntry("List batches, newest first.", f"{_BATCH}:list_batches"),
    "show": CommandEntry("Show the progress, failures and cost of a batch.", f"{_BATCH}:show"),
    "files": CommandEntry("List the files of a batch, or show the history of one file.", f"{_BATCH}:files"),
    "events": CommandEntry("Show what happened to a batch, who did it and why.", f"{_BATCH}:events"),
    "export": CommandEntry("Write the results of a finished batch to a folder.", f"{_BATCH}:export"),
    "archive": CommandEntry("Copy the originals of a finished batch to the archive.", f"{_BATCH}:archive"),
    "retry": CommandEntry("Retry failed files, or continue a stopped batch.", f"{_BATCH_CONTROL}:retry"),
    "cancel": CommandEntry("Cancel a batch and keep the results so far.", f"{_BATCH_CONTROL}:cancel"),
    "pause": CommandEntry("Stop starting tasks of a batch.", f"{_BATCH_CONTROL}:pause"),
    "resume": CommandEntry("Resume a batch that is paused or over budget.", f"{_BATCH_CONTROL}:resume"),
    "reset": CommandEntry("End a stuck batch with an error.", f"{_BATCH_CONTROL}:reset"),
    "priority": CommandEntry("Set the priority of a batch.", f"{_BATCH_CONTROL}:priority"),
}
PIPELINE_COMMANDS = {
    "list": CommandEntry("List the pipelines that this configuration finds.", f"{_PIPELINE}:list_pipelines"),
    "show": CommandEntry("Draw the phases of a pipeline and what flows between them.", f"{_PIPELINE}:show"),
    "check": CommandEntry("Check pipelines without running them.", f"{_PIPELINE}:check"),
}
DEAD_LETTER_COMMANDS = {
    "list": CommandEntry("List the dead letters of a queue, oldest first.", f"{_DEAD}:list_dead"),
    "show": CommandEntry("Show a dead letter, its body and every delivery.", f"{_DEAD}:show"),
    "replay": CommandEntry("Put dead letters back into their queue.", f"{_DEAD}:replay"),
    "discard": CommandEntry("Delete dead letters and their history for good.", f"{_DEAD}:discard"),
}
QUEUE_COMMANDS: Mapping[str, Entry] = {
    "list": CommandEntry("List queues with their depth, age and throughput.", f"{_QUEUE}:list_queues"),
    "peek": CommandEntry("Show the next messages of a queue without delivering them.", f"{_QUEUE}:peek"),
    "purge": CommandEntry("Delete all waiting and delayed messages of a queue.", f"{_QUEUE}:purge"),
    "test": CommandEntry(
        "Check that a backend honours the guarantees of a queue.", f"{_QUEUE}:check_backend"
    ),
    "dead": GroupEntry("List, inspect, replay and discard dead letters.", DEAD_LETTER_COMMANDS),
}
WEBHOOK_COMMANDS = {
    "add": CommandEntry("Add a webhook and show its signing secret once.", f"{_WEBHOOK}:add"),
    "list": CommandEntry("List webhooks, oldest first, without their secrets.", f"{_WEBHOOK}:list_webhooks"),
    "remove": CommandEntry("Remove a webhook and its pending deliveries.", f"{_WEBHOOK}:remove"),
    "deliveries": CommandEntry(
        "List deliveries and their responses, newest first.", f"{_WEBHOOK}:deliveries"
    ),
    "redeliver": CommandEntry("Send deliveries again.", f"{_WEBHOOK}:redeliver"),
}
KEY_COMMANDS = {
    "create": CommandEntry("Create an API key and show it once.", f"{_KEY}:create"),
    "list": CommandEntry("List API keys, newest first.", f"{_KEY}:list_keys"),
    "revoke": CommandEntry("Revoke an API key immediately.", f"{_KEY}:revoke"),
    "rotate": CommandEntry("Replace an API key with a new one with the same rights.", f"{_KEY}:rotate"),
}
TASK_COMMANDS = {
    "run": CommandEntry("Run the task that the environment describes.", "quire.cli.worker.task:run")
}
OCR_COMMANDS = {
    "worker": CommandEntry(
        "Read the pictures that requests for OCR name, until stopped.", "quire.cli.ocr.commands:worker"
    )
}
RECIPE_COMMANDS = {
    "import": CommandEntry(
        "Import the recipe on photos or on a web page, and print it.",
        "quire.cli.recipe.commands:import_recipe",
    )
}
COMMANDS: Mapping[str, Entry] = {
    "run": CommandEntry("Run files and folders through a pipeline.", "quire.cli.run.commands:run"),
    "serve": CommandEntry("Serve the HTTP API.", "quire.cli.server.serve:serve"),
    "upload": CommandEntry("Upload a folder to a server as one batch.", "quire.cli.upload.commands:upload"),
    "doctor": CommandEntry("Check the installation, the settings and the store.", "quire.cli.doctor:doctor"),
    "clean": CommandEntry(
        "Delete old staged files, idle uploads and old recipe photos.", "quire.cli.server.clean:clean"
    ),
    "scrub": CommandEntry("Read the whole store and repair damaged blobs.", "quire.cli.server.scrub:scrub"),
    "scheduler": CommandEntry(_RUN_THE_SCHEDULER, f"{_WORKER}:scheduler"),
    "conductor": CommandEntry(_RUN_THE_SCHEDULER, f"{_WORKER}:scheduler", is_hidden=True),  # its former name
    "worker": CommandEntry("Run workers, which execute the tasks of batches.", f"{_WORKER}:worker"),
    "pipeline": GroupEntry("List, draw and check pipelines.", PIPELINE_COMMANDS),
    "batch": GroupEntry("Monitor and control batches.", BATCH_COMMANDS),
    "queue": GroupEntry("Inspect queues and manage dead letters.", QUEUE_COMMANDS),
    "webhook": GroupEntry("Manage webhooks and their deliveries.", WEBHOOK_COMMANDS),
    "key": GroupEntry("Manage the API keys of a server.", KEY_COMMANDS),
    "ocr": GroupEntry("Run the OCR service.", OCR_COMMANDS),
    "task": GroupEntry("Run single tasks on machines that a server starts.", TASK_COMMANDS),
    "recipe": GroupEntry("Import recipes.", RECIPE_COMMANDS),
    "library": CommandEntry("Manage a library of PDFs in a bucket.", "quire.cli.library.commands:library"),
}
