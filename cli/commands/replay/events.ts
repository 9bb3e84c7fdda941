/** `tapedeck replay events`: what was recorded, delivered again in order: to a file, to another server, into another log. */
import { createWriteStream } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { ByteWriter } from '../../../base/byte-writer.ts';
import { systemClock, type Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import { cborToJson } from '../../../events/codec/cbor-to-json.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { httpSink } from '../../../ingest/importers/http-sink.ts';
import { microsOfText } from '../../../query/positions/time-text.ts';
import { itemsOf, withoutProducer } from '../../../query/replay/deliver/cbor-sequence.ts';
import { environmentVariable, type Config } from '../../config.ts';
import { askServer } from '../../render/ask-server.ts';
import { write } from '../../render/output.ts';
import { keyedFetch } from '../../server-key.ts';
import { carried } from './carried.ts';
import { openLogTarget } from './log-target.ts';
import { findRollout } from './rollout-source.ts';
import { factor } from './session-options.ts';

type Options = {
  readonly url: string;
  readonly project: string;
  readonly run?: string;
  readonly from?: number;
  readonly until?: number;
  readonly to: string;
  readonly speed?: number;
  readonly maxPause: number;
  readonly toKeyEnv?: string;
};

/** Where events go. `rejected` is told with the reason. */
export type Target = {
  put(slices: readonly Uint8Array[]): Promise<{
    readonly accepted: number;
    readonly duplicates: number;
    readonly rejected: readonly { readonly code: string; readonly message: string }[];
  }>;
  close(): Promise<void>;
};

const BATCH_EVENTS = 1_000;
const BATCH_BYTES = 4 * 1024 * 1024;

export function eventsCommand(config: Config): Command {
  return new Command('events')
    .description('deliver the events of a rollout, a run or a time range again, in order')
    .argument('[rollout]', 'id of a rollout, or of a trace in it')
    .option('--run <id>', 'all of a run')
    .option('--from <time>', "from this time on (ISO 8601, or microseconds; the producers' clocks)", micros)
    .option('--until <time>', 'up to this time, itself not included', micros)
    .option('--to <target>', '- or a file for NDJSON, http://… for another server, log:<folder> for the log in a data folder', '-')
    .option('--to-key-env <name>', 'environment variable with the API key of the other server (default: that of this one)')
    .option('--speed <factor>', 'with the original pauses: 1 as they were, 10 ten times as fast (default: at once)', factor)
    .option('--max-pause <seconds>', 'no single pause is longer', factor, 60)
    .option('--url <url>', 'server to read from', config.url)
    .option('--project <id>', 'project of the events', config.project ?? DEFAULT_PROJECT)
    .addHelpText('after', '\nFor server-sent events: GET /v1/replay/events?format=sse&speed=1&run=… of the server.')
    .action((rollout: string | undefined, options: Options) => carried((signal) => deliver(rollout, options, config, signal)));
}

async function deliver(id: string | undefined, options: Options, config: Config, signal: AbortSignal): Promise<number> {
  const query = new URLSearchParams({ project: options.project, format: 'cbor', maxPauseMs: String(options.maxPause * 1000) });
  if (id !== undefined) {
    const { run, rollout } = await findRollout(options, id, options.run);
    query.set('run', run);
    query.set('rollout', rollout);
  } else if (options.run !== undefined) query.set('run', options.run);
  if (options.from !== undefined) query.set('from', String(options.from));
  if (options.until !== undefined) query.set('to', String(options.until));
  if (options.speed !== undefined) query.set('speed', String(options.speed));
  const answer = await askServer(options.url, `/v1/replay/events?${query.toString()}`, { signal });
  const target = await openTarget(options, config, signal);
  const total = { accepted: 0, duplicates: 0, rejected: 0 };
  try {
    for await (const batch of batches(answer.body as AsyncIterable<Uint8Array>, options.speed !== undefined)) {
      const { accepted, duplicates, rejected } = await target.put(batch);
      total.accepted += accepted;
      total.duplicates += duplicates;
      total.rejected += rejected.length;
      for (const { code, message } of rejected) process.stderr.write(`refused: ${message} (${code})\n`);
    }
  } finally {
    await target.close();
  }
  const told = `${total.accepted} events delivered to ${options.to === '-' ? 'standard output' : options.to}`;
  const more = [
    ...(total.duplicates > 0 ? [`${total.duplicates} were there already`] : []),
    ...(total.rejected > 0 ? [`${total.rejected} refused`] : []),
  ];
  process.stderr.write(`${[told, ...more].join(', ')}\n`);
  return total.rejected > 0 ? 1 : 0;
}

/** As many events as are there; one by one where they come in their own time. */
async function* batches(pieces: AsyncIterable<Uint8Array>, isPaced: boolean): AsyncGenerator<Uint8Array[]> {
  let batch: Uint8Array[] = [];
  let bytes = 0;
  for await (const slice of itemsOf(pieces)) {
    batch.push(slice);
    bytes += slice.length;
    if (!isPaced && batch.length < BATCH_EVENTS && bytes < BATCH_BYTES) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

async function openTarget({ to, toKeyEnv }: Options, config: Config, signal: AbortSignal): Promise<Target> {
  if (/^https?:\/\//.test(to)) return serverTarget(to, toKeyEnv === undefined ? keyedFetch : fetchWith(toKeyEnv), systemClock, signal);
  if (to.startsWith('log:')) return openLogTarget(to.slice('log:'.length), config);
  return linesTarget(to);
}

function fetchWith(variable: string): typeof fetch {
  const key = environmentVariable(variable);
  if (key === undefined || key === '') throw new TapedeckError('usage', `the environment variable ${variable} holds no key`);
  return (input, init) =>
    fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), authorization: `Bearer ${key}` } });
}

function serverTarget(url: string, send: typeof fetch, clock: Clock, signal: AbortSignal): Target {
  const onRetry = (reason: string): void => void process.stderr.write(`waiting: ${reason}\n`);
  const sink = httpSink({ url, fetch: send, clock, random: systemRandom, onRetry });
  return { put: (slices) => sink(slices.map(withoutProducer), signal), close: async () => {} };
}

/** Throws `not_writable` when the file cannot be written. */
async function linesTarget(path: string): Promise<Target> {
  const stream = path === '-' ? process.stdout : createWriteStream(path);
  let failure: TapedeckError | null = null;
  if (path !== '-')
    stream.on(
      'error',
      (cause: Error) => (failure = new TapedeckError('not_writable', `cannot write ${path}: ${cause.message}`, { cause })),
    );
  return {
    put: async (slices) => {
      const out = new ByteWriter(4096);
      for (const slice of slices) {
        cborToJson(slice, 0, slice.length, out);
        out.byte(0x0a);
      }
      await write(stream, out.take());
      if (failure !== null) throw failure;
      return { accepted: slices.length, duplicates: 0, rejected: [] };
    },
    close: async () => {
      if (path === '-') return;
      await new Promise<void>((resolve) => void stream.end(() => resolve()).once('close', resolve));
      if (failure !== null) throw failure;
    },
  };
}

function micros(text: string): number {
  const written = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number(microsOfText(written) ?? NaN);
  if (!Number.isSafeInteger(value) || value < 0)
    throw new InvalidArgumentError('must be a time: 2026-11-30T12:00:00Z, or microseconds since 1970');
  return value;
}
