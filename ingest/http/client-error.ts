import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TapedeckError } from '../../base/errors.ts';
import { errorBody } from './error-answer.ts';

const REASONS: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  413: 'Content Too Large',
  431: 'Request Header Fields Too Large',
};

/**
 * A handler for what the HTTP parser itself refuses (no request exists then): answers in the shape of every other failure and closes the connection. When
 * a whole request is still being answered and only what follows it is broken, its own answer goes out instead, as the last one: a client must not
 * read "400" for events that were stored.
 */
export function createClientErrorHandler(): { follow(server: Server): void; handle(error: NodeJS.ErrnoException, socket: Socket): void } {
  const latest = new WeakMap<Socket, { request: IncomingMessage; response: ServerResponse }>();
  return {
    follow: (server) => server.prependListener('request', (request, response) => latest.set(request.socket, { request, response })),
    handle(error, socket) {
      if (error.code === 'ECONNRESET' || !socket.writable) {
        socket.destroy();
        return;
      }
      const current = latest.get(socket);
      if (current !== undefined && current.request.complete && !current.response.writableFinished) {
        if (!current.response.headersSent) current.response.setHeader('connection', 'close');
        current.response.once('finish', () => socket.destroySoon());
        return;
      }
      answer(error, socket);
    },
  };
}

function answer(error: NodeJS.ErrnoException, socket: Socket): void {
  const { status, problem } = describe(error.code);
  const body = JSON.stringify(errorBody(problem));
  const head = [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

function describe(code: string | undefined): { status: number; problem: TapedeckError } {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, problem: new TapedeckError('bad_request', 'the headers are too large; send fewer or shorter ones') };
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { status: 413, problem: new TapedeckError('bad_request', 'the chunk extensions are too large; send none') };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, problem: new TapedeckError('slow_body', 'the request did not come whole in time') };
    case 'HPE_INVALID_EOF_STATE':
      return { status: 400, problem: new TapedeckError('truncated_body', 'the connection ended before the request did; send it whole') };
    default:
      return {
        status: 400,
        problem: new TapedeckError('bad_request', `this is not HTTP/1.1 (${code ?? 'unknown'})`, {
          details: { reason: code ?? 'unknown' },
        }),
      };
  }
}
