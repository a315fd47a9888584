"""A stand-in for a server of Qdrant: its REST interface, as far as an index uses it, over points in a folder.

No package has the server itself. The requests are those that the official client makes and checks against its models
of the interface; the answers come from the same engine, which qdrant-edge runs in this process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from graphdoc.retrieval.qdrant_points import FOLDER, FolderPoints, Point, WordQuery

KEY = "secret"


@contextmanager
def qdrant_stand_in(folder: Path) -> Iterator[str]:
    """Run it; gives host and port."""
    collections: dict[str, FolderPoints] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, result = 200, None
            if self.headers.get("api-key") != KEY:
                status = 403
            else:
                _, _, name, *rest = self.path.partition("?")[0].split("/")
                result = answer(f"{self.command} {'/'.join(rest)}".strip(), name, json.loads(content or b"{}"))
            body = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, *arguments: object) -> None:
            pass

    def answer(call: str, name: str, body: dict[str, Any]) -> Any:
        done = {"operation_id": 0, "status": "completed"}
        if call == "GET exists":
            return {"exists": name in collections}
        if call == "PUT":
            sizes = {one: about["size"] for one, about in body["vectors"].items()}
            assert all(about["distance"] == "Dot" for about in body["vectors"].values())
            collections[name] = FolderPoints.create(folder / name / FOLDER, name, sizes)
            return True
        points = collections[name]
        if call == "PUT index":
            schema = body["field_schema"]
            assert isinstance(schema, str) or (schema["tokenizer"], schema["scoring"]) == ("whitespace", True)
            points.index(body["field_name"], schema if isinstance(schema, str) else "words")
        elif call == "PUT points":
            points.upsert([Point(one["id"], one["payload"], one["vector"]) for one in body["points"]])
        elif call == "POST points/payload":
            points.set_payload(body["payload"], body["filter"])
        elif call == "POST points/delete":
            points.delete(body["filter"])
        elif call == "POST points":
            (id,) = body["ids"]
            found = points.one(id)
            return [] if found is None else [{"id": id, "payload": found}]
        elif call == "POST points/count":
            return {"count": points.count(body["filter"])}
        elif call == "POST facet":
            return {"hits": [{"value": one, "count": 1} for one in points.values(body["key"], body["filter"], 9)]}
        elif call == "POST points/scroll":
            vectors = body["with_vector"] or []
            some, after = points.some(body["filter"], body["with_payload"], vectors, body["limit"], body.get("offset"))
            listed = [{"id": one.id, "payload": one.payload, "vector": one.vectors} for one in some]
            return {"points": listed, "next_page_offset": after}
        elif call == "POST points/query":
            query = body["query"]
            if "text" in query:
                parameters = query["text"]["scoring"]["bm25"]
                asked: Any = WordQuery(query["text"]["query"], parameters["k"], parameters["b"])
            else:
                asked = query["nearest"]
            best = points.nearest(asked, body["using"], body["filter"], body["limit"], body["with_payload"])
            listed = [
                {"id": place, "version": 0, "score": score, "payload": own} for place, (own, score) in enumerate(best)
            ]
            return {"points": listed}
        else:
            raise AssertionError(call)
        return done

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
