"""A hub on this machine: what huggingface_hub's client asks when it makes, fills, finds and brings a model."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Models by name, each a mapping of files to bytes; `asked` is what was asked, in order."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing."""

    def _answer(self, code, body=b"", **headers):
        body = json.dumps(body).encode() if isinstance(body, dict | list) else body
        self.send_response(code)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self):
        self._answer(404, b"", X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")

    def _file(self):
        name, _, rest = self.path.lstrip("/").partition("/resolve/")
        content = self.server.models.get(name, {}).get(rest.partition("/")[2])
        if content is None:
            return self._missing()
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self._answer(200, content, ETag=etag, X_Repo_Commit=COMMIT, Accept_Ranges="bytes")

    def do_HEAD(self):
        self.server.asked.append(f"HEAD {self.path}")
        self._file()

    def do_GET(self):
        self.server.asked.append(f"GET {self.path}")
        if not self.path.startswith("/api/models/"):
            self._file()
            return
        path = self.path.partition("?")[0].removeprefix("/api/models/")
        name = "/".join(path.split("/")[:2])
        files = self.server.models.get(name)
        if files is None:
            self._missing()
            return
        listed = [{"rfilename": f, "size": len(c)} for f, c in files.items()]
        if "/tree/" in path:
            tree = [{"type": "file", "path": f, "size": len(c), "oid": "0" * 40} for f, c in files.items()]
            self._answer(200, tree)
        else:
            self._answer(200, {"id": name, "modelId": name, "sha": COMMIT, "siblings": listed, "private": False})

    def do_POST(self):
        self.server.asked.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            said = json.loads(body)
            name = f"{said['organization']}/{said['name']}" if said.get("organization") else said["name"]
            self.server.models.setdefault(name, {})
            self._answer(200, {"url": f"{self.server.address}/{name}", "name": name})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self._answer(200, {"files": [{**f, "uploadMode": "regular", "shouldIgnore": False} for f in files]})
        elif "/commit/" in self.path:
            name = self.path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.models[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            where = f"{self.server.address}/{name}/commit/{COMMIT}"
            self._answer(200, {"commitUrl": where, "commitOid": COMMIT, "success": True})
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        else:
            self._answer(404)


@contextmanager
def hub():
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
