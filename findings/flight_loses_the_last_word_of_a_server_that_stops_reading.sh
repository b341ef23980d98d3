#!/usr/bin/env bash
# Expected: in a DoPut of Arrow Flight, a server that has read enough writes a last metadata message ("refused: ...") and
#   returns without an error; the client, which is still writing, then reads that message, as gRPC keeps what was sent
#   before the end of a call.
# Happens: a client that writes until a write fails has lost the message (0 of 80 arrived). When the write fails, because the
#   call has ended, pyarrow discards what has not been read; FlightMetadataReader.read() gives None, and no error has the
#   message. An error that the server raises (FlightServerError) arrives every time.
# Version: pyarrow 26.0.1 (Flight over gRPC on loopback), CPython 3.11. Seen by running it; 80 uploads a way.
# Matters: "acknowledge, then say why you stop" is how uploads are refused. With metadata the reason is lost in silence
#   just where the client is faster than the server, which is where it is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check pyarrow==26.0.1
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import threading

import pyarrow as pa
from pyarrow import flight

BATCH = pa.record_batch([pa.array(range(4096))], names=["x"])
TRIES, BATCHES = 80, 400


class Server(flight.FlightServerBase):
    def do_put(self, context, descriptor, reader, writer):
        for number, _ in enumerate(reader):
            if number == 2:
                if descriptor.path[0] == b"metadata":
                    writer.write(pa.py_buffer(b"refused: enough"))
                    return
                raise flight.FlightServerError("refused: enough")


def upload(client, way):
    """Whether the reason reached a client that writes on until it cannot."""
    writer, metadata = client.do_put(flight.FlightDescriptor.for_path(way), BATCH.schema)
    heard = []
    try:
        for _ in range(BATCHES):
            writer.write_batch(BATCH)
    except Exception as error:
        heard.append(str(error))
    try:
        if (word := metadata.read()) is not None:
            heard.append(word.to_pybytes().decode())
    except Exception as error:
        heard.append(str(error))
    try:
        writer.close()
    except Exception as error:
        heard.append(str(error))
    return any("refused: enough" in one for one in heard)


server = Server("grpc://127.0.0.1:0")
threading.Thread(target=server.serve, daemon=True).start()
client = flight.connect(f"grpc://127.0.0.1:{server.port}")
arrived = {way: sum(upload(client, way) for _ in range(TRIES)) for way in ("metadata", "error")}
print(f"of {TRIES} refusals arrived: as a last metadata message {arrived['metadata']}, as an error {arrived['error']}")
assert arrived["error"] == TRIES, "the behaviour has changed"
assert arrived["metadata"] < TRIES, "the behaviour has changed"
server.shutdown()
PYTHON
echo "as stated: a last metadata message is lost, an error in none"
