from quire.authoring.document import Document as Document
from quire.authoring.document import Folder as Folder
from quire.authoring.language_model import Model as Model
from quire.authoring.outputs import Output as Output
from quire.authoring.outputs import Result as Result
from quire.authoring.pipeline import Pipeline as Pipeline
from quire.authoring.signals import External as External
from quire.authoring.signals import TryLater as TryLater
from quire.cli.run.program import run as run
from quire.model.errors import Reject as Reject

__version__: str
