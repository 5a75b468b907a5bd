"""A converter that does as its document says: `%PDF crash`, `%PDF hang`, `%PDF pages 40` …

Alone in its process, with the standard library only, so that hundreds of conversions take seconds.
"""

import json
import os
import signal
import sys
import zipfile
from pathlib import Path


def main(paper: str) -> int:
    order = json.loads(Path(paper).read_bytes())
    words = Path(order["source"]).read_bytes()[:200].decode(errors="replace").split()
    about, target = order["about"], Path(order["target"])
    said = set(words)
    total = int(words[words.index("pages") + 1]) if "pages" in said else 1
    for done in range(total + 1):
        tell({"stage": "converting", "done": done, "total": total})
    if "crash" in said:
        os.abort()
    if "hang" in said:
        signal.pause()
    if "memory" in said:
        bytearray(4 << 30)
    if "fail" in said or "trouble" in said:
        tell({"error": "page 3 is a riddle", "traceback": "Traceback …", "trouble": "trouble" in said})
        return 1
    sys.stderr.write("this and that\n")
    if "nothing" in said:
        return 0
    info = dict(about, hash="0" * 64) if "another" in said else about
    with zipfile.ZipFile(target, "w") as archive:
        if "large" in said:
            archive.writestr("assets/1.png", bytes(70 << 20))
        archive.writestr("content.md", f"# {about['original_filename']}\n" * 100)
        archive.writestr("info.json", json.dumps(info))
    if "damaged" in said:
        target.write_bytes(target.read_bytes().replace(b"# ", b"! ", 1))
    return 0


def tell(sign: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(sign) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
