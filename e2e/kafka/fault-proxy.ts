/**
 * A TCP proxy before one broker that can misbehave: lose the answer of every n-th produce request (the broker has stored the records, the connection then
 * breaks), or hold answers back.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

const PRODUCE = 0;
const LENGTH_BYTES = 4;

export type FaultProxy = {
  readonly port: number;
  /** Where to connect to; set once the broker runs. */
  target: number;
  /** Loses the answer of every n-th produce request; 0 = none. */
  dropEvery: number;
  readonly dropped: number;
  /** Holds every answer back for this long. */
  delayMs: number;
  close(): Promise<void>;
};

export async function startFaultProxy(): Promise<FaultProxy> {
  const sockets = new Set<Socket>();
  let produced = 0;
  const proxy = { port: 0, target: 0, dropEvery: 0, dropped: 0, delayMs: 0 };
  const server = createServer((client) => {
    const broker = connect(proxy.target, '127.0.0.1');
    const end = (): void => {
      client.destroy();
      broker.destroy();
    };
    for (const socket of [client, broker]) {
      sockets.add(socket);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    const producing = new Set<number>();
    eachFrame(client, (frame) => {
      if (frame.readInt16BE(LENGTH_BYTES) === PRODUCE) producing.add(frame.readInt32BE(LENGTH_BYTES + 4));
      broker.write(frame);
    });
    eachFrame(broker, (frame) => {
      const answersProduce = producing.delete(frame.readInt32BE(LENGTH_BYTES));
      if (answersProduce && proxy.dropEvery > 0 && ++produced % proxy.dropEvery === 0) {
        proxy.dropped++;
        end();
      } else if (proxy.delayMs > 0) setTimeout(() => client.write(frame), proxy.delayMs);
      else client.write(frame);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.port = (server.address() as AddressInfo).port;
  return Object.assign(proxy, {
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

/** Kafka frames: a length of four bytes, then that many bytes. */
function eachFrame(socket: Socket, onFrame: (frame: Buffer) => void): void {
  let rest = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= LENGTH_BYTES + 8 && rest.length >= LENGTH_BYTES + rest.readInt32BE(0)) {
      const length = LENGTH_BYTES + rest.readInt32BE(0);
      onFrame(rest.subarray(0, length));
      rest = rest.subarray(length);
    }
  });
}
