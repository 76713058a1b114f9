"""A small server that plays one script of events to every request for an answer, for byte streams that `goodput sim fixed` has no
fault for. It has what the tools ask for besides: a list of models, and 404 for all else, as a server without those pages.

`goodput sim script` plays its script to any request, also to the GET /server_info that SGLang's client wants as JSON, so it
cannot serve here. The times of this server are only as good as Python's sleep, which is enough for differences of 40 ms.
Standard library only.
"""

import contextlib
import http.server
import json
import threading
import time

ANSWERS = ("/v1/chat/completions", "/v1/completions", "/generate")


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one connection; `script` is set by `playing`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script = ()

    def do_GET(self):  # noqa: N802
        """The list of models, or 404."""
        if self.path == "/v1/models":
            self.whole(200, {"object": "list", "data": [{"id": "mock", "object": "model"}]})
        else:
            self.whole(404, {"error": "no such page"})

    def do_POST(self):  # noqa: N802
        """The script, or 404."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        arrived = time.monotonic()
        if self.path not in ANSWERS:
            self.whole(404, {"error": "no such page"})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at_ms, *events in self.script:
            time.sleep(max(0.0, arrived + at_ms / 1000 - time.monotonic()))
            frames = "".join(f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n" for e in events).encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frames), frames))
        self.wfile.write(b"0\r\n\r\n")

    def whole(self, status, body):
        """One JSON body."""
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Says nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Does not mind a client that hangs up."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        """Says nothing: a tool that ends closes its connections as it likes."""


@contextlib.contextmanager
def playing(script):
    """Serves the script; gives the server's address."""
    handler = type("Player", (Handler,), {"script": script})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
