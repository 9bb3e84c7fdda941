/**
 * One piece of a chunked answer as one write. Node's own `write` hands length, piece and line ends to the socket one by one, which costs more than half as much
 * again; a streamed answer is hundreds of small pieces.
 */
import type { ServerResponse } from 'node:http';

const LINE_END = Buffer.from('\r\n');
/** Beyond it, copying costs more than it saves. */
const COPY_BYTES = 16 * 1024;

/** False when the socket's buffer is full; `onDrain` is then told once when it is empty. To be called after the headers were flushed. */
export function writeChunk(response: ServerResponse, bytes: Uint8Array, onDrain: () => void): boolean {
  const { socket } = response;
  // without a socket the answer waits for an earlier one on the same connection; HTTP/1.0 knows no chunks
  if (socket === null || !response.chunkedEncoding || bytes.length === 0 || bytes.length > COPY_BYTES) {
    if (response.write(bytes)) return true;
    response.once('drain', onDrain);
    return false;
  }
  const length = Buffer.from(`${bytes.length.toString(16)}\r\n`, 'latin1');
  if (socket.write(Buffer.concat([length, bytes, LINE_END]))) return true;
  socket.once('drain', onDrain);
  return false;
}
