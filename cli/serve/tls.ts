/** The certificate of the server, from two files. They are looked at every few seconds, so that a renewed certificate is taken without a restart. */
import { readFile } from 'node:fs/promises';
import type { Server as HttpServer } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import { createSecureContext } from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Config } from '../config.ts';

type Pem = { readonly cert: string; readonly key: string };

export type Tls = {
  readonly pem: Pem;
  /** New certificates go to this server. */
  follow(server: HttpServer | HttpsServer): void;
  close(): Promise<void>;
};

const EVERY_MS = 5_000;

/** Null without a certificate in the settings. Throws `config_invalid` when the files cannot be used. */
export async function openTls(
  config: Pick<Config, 'tlsCert' | 'tlsKey'>,
  clock: Clock,
  onProblem: (error: unknown) => void,
): Promise<Tls | null> {
  const { tlsCert, tlsKey } = config;
  if (tlsCert === undefined || tlsKey === undefined) return null;
  const read = (): Promise<Pem> => readPem(tlsCert, tlsKey);
  const pem = await read();
  const stop = new AbortController();
  let following: Promise<void> = Promise.resolve();
  return {
    pem,
    follow: (server) => {
      following = followFiles(server as HttpsServer, pem, read, { clock, onProblem, signal: stop.signal });
    },
    close: async () => {
      stop.abort();
      await following;
    },
  };
}

type Ports = { readonly clock: Clock; readonly onProblem: (error: unknown) => void; readonly signal: AbortSignal };

/** A pair that does not fit (one file is newer than the other) is tried again at the next look; the old one serves meanwhile. */
async function followFiles(server: HttpsServer, first: Pem, read: () => Promise<Pem>, { clock, onProblem, signal }: Ports): Promise<void> {
  let served = first;
  let told = '';
  while (!signal.aborted) {
    await clock.sleep(EVERY_MS, signal).catch(() => {});
    try {
      const pem = await read();
      if (pem.cert === served.cert && pem.key === served.key) continue;
      server.setSecureContext(pem);
      served = pem;
    } catch (error) {
      const text = String(error);
      if (text !== told && !signal.aborted) onProblem(error);
      told = text;
    }
  }
}

async function readPem(certFile: string, keyFile: string): Promise<Pem> {
  try {
    const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')]);
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (cause) {
    throw new TapedeckError(
      'config_invalid',
      `TAPEDECK_TLS_CERT=${certFile} and TAPEDECK_TLS_KEY=${keyFile} are no certificate and its key in PEM`,
      { cause },
    );
  }
}
