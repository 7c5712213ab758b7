"""`longhaul serve` in front of a backend, in folders of its own. It can be killed and started again on the same folders."""

import os
import pathlib
import shutil
import subprocess
import tempfile

PROVIDERS = {"chat": "openai-compatible", "responses": "openai", "messages": "anthropic"}


class Gateway:
    def __init__(self, binary, backend, window, model="fake-model", more="", port=0):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-clients-"))
        declared = f"models: {{ {model}: {{ window: {window} }} }}\n" if window else more
        (self.folder / "longhaul.yml").write_text(
            "name: check\n"
            f'model: {{ provider: {PROVIDERS[backend.dialect]}, name: {model}, base_url: "{backend.url}/v1", api_key_env: CHECK_KEY }}\n'
            f"{declared}"
        )
        (self.folder / "home").mkdir()
        self.command = [
            binary, "--config", self.folder / "longhaul.yml", "--data-dir", self.folder / "data", "serve", "--addr", f"127.0.0.1:{port}",
        ]
        self.err = open(self.folder / "err", "ab")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, cwd=self.folder, stdout=subprocess.PIPE, stderr=self.err, text=True,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "CHECK_KEY": "check",
                **{name: os.environ[name] for name in ["LONGHAUL_LOG"] if name in os.environ},
            },
        )
        self.url = self.process.stdout.readline().strip().rstrip("/")
        if not self.url.startswith("http"):
            self.close(keep=True)
            raise RuntimeError(f"the gateway did not start: {self.said()}")

    def kill(self):
        """With SIGKILL, so that it writes nothing more."""
        self.process.kill()
        self.process.wait()

    def said(self):
        return (self.folder / "err").read_text(errors="replace")

    def memory(self):
        """What it holds, in MB."""
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            return int(status.split("VmRSS:")[1].split()[0]) // 1024
        except (OSError, IndexError):
            return 0

    def close(self, keep=False):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.err.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
