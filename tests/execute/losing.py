"""A process of a task that ends as the task's file says: ``python -m ... FOLDER PLACE``."""

import json
import os
import signal
import sys
import time
from pathlib import Path


def run(folder: Path, place: int) -> None:
    tries = folder / f"tries-{place}"
    count = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (count + 1))
    task = json.loads((folder / "task.json").read_text())
    words = task["ends"][place]
    for word in words[min(count, len(words) - 1)].split():
        if word == "result":
            (folder / f"{place}.result").write_text(f"{count}")
        elif word == "done":
            (folder / f"{task['done']}{place}").touch()
        elif word == "says":
            (folder / f"error-{place}").write_text("this cannot be run")
            os._exit(3)
        elif word == "raises":
            raise RuntimeError("a defect")
        elif word == "waits":
            time.sleep(60)
        else:
            os.kill(os.getpid(), getattr(signal, word))


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
