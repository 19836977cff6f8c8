"""A real server that speaks S3, on this machine, which can go away and come back."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.processes import free_port, wait_until

KEY_ID, SECRET = "the name of a key", "the secret of a key"


class S3Server:
    """Keeps each bucket as a folder, and each object as a file in it."""

    def __init__(self, folder: Path) -> None:
        self.bucket = folder / "pictures"
        self.bucket.mkdir(parents=True)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def settings(self, store: str = "s3://pictures/of/doors") -> dict[str, str]:
        return {
            "image_store": store,
            "s3_endpoint": f"http://127.0.0.1:{self._port}",
            "s3_access_key_id": KEY_ID,
            "s3_secret_access_key": SECRET,
        }

    def environ(self, store: str = "s3://pictures/of/doors") -> dict[str, str]:
        told = self.settings(store)
        return {f"TRACKER_{name.upper()}": value for name, value in told.items()}

    def objects(self) -> dict[str, tuple[int, bytes]]:
        """When each object was written, and what it holds."""
        return {
            path.relative_to(self.bucket).as_posix(): (
                path.stat().st_mtime_ns,
                path.read_bytes(),
            )
            for path in self.bucket.rglob("*")
            if path.is_file()
        }

    def start(self) -> None:
        command = [sys.executable, "-m", "localbucket", str(self.bucket.parent)]
        self._process = subprocess.Popen(
            [*command, "--port", str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
            return True
        return False


@contextmanager
def started(folder: Path) -> Iterator[S3Server]:
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
